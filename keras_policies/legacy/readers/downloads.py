"""Downloads a file from a host, as it is and within limits of time.

A host chooses how long it takes, where it redirects to, and whether a small answer
unpacks to gigabytes. So the answer is read packed as it comes, redirects lead to
`http(s)` only, and a thread watches how fast bytes come: names that are not resolved,
headers that come one letter a minute, and hosts that are silent all count.
"""

import base64
import contextlib
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

SCHEMES = "http", "https"
GONE = 404, 410
PLAIN = "identity"  # the encoding of a body that is not packed
TICK = 0.05  # seconds between two looks at a download


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to hosts; Python itself refuses files, not FTP servers."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        """Return the request for the new address."""
        if urllib.parse.urlsplit(newurl).scheme.lower() not in SCHEMES:
            fp.close()
            raise LegacyModelError(
                f"the host redirects to {newurl[: limits.TOLD_NAME]!r}, expected an "
                "address of http:// or https://.",
                code="KP107",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def opened(address: str) -> Iterator["_Whole"]:
    """Yield the body of the answer at an address, whose reads raise if it is cut off.

    Raise FileNotFoundError if there is no such file.
    """
    request = _request(address)
    opener = urllib.request.build_opener(_Redirects)
    try:
        answer = opener.open(request, timeout=limits.DOWNLOAD_SILENCE)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in GONE:
                raise FileNotFoundError(address) from error
            raise
    with answer:
        encoding = answer.headers.get("Content-Encoding", PLAIN)
        if encoding.lower() != PLAIN:
            raise LegacyModelError(
                f"the host packs the file (Content-Encoding: "
                f"{encoding[: limits.TOLD_NAME]!r}), although it was asked not to.",
                "Download it yourself, unpack it, and pass its path.",
                code="KP107",
            )
        yield _Whole(answer)


def _request(address: str) -> urllib.request.Request:
    """Return the request for an address, which may have a name and a password."""
    parts = urllib.parse.urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    path = urllib.parse.quote(parts.path, safe="/%:@!$&'()*+,;=~")
    query = urllib.parse.quote(parts.query, safe="/%:@!$&'()*+,;=~?")
    url = urllib.parse.urlunsplit((parts.scheme, host, path, query, ""))
    request = urllib.request.Request(url, headers={"Accept-Encoding": PLAIN})
    if user:
        login = urllib.parse.unquote(user).encode()
        basic = base64.b64encode(login).decode()
        request.add_unredirected_header("Authorization", f"Basic {basic}")
    return request


class _Whole:
    """The body of an answer; its end raises if bytes are missing."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, and none at the end."""
        chunk: bytes = self._answer.read(size)
        if not chunk and self._answer.length:  # as many are left, if that is known
            raise EOFError(f"it ends {self._answer.length} bytes too early")
        return chunk


def watched(work: Callable[[], None], read: Callable[[], int]) -> None:
    """Do work in a thread, and raise if it takes too long for what it has read.

    `read` returns the number of bytes read so far. A thread that is given up ends with
    its next error: its folder is deleted.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    start = time.monotonic()
    thread.start()
    thread.join(TICK)
    while thread.is_alive():
        seconds = time.monotonic() - start
        if seconds > limits.DOWNLOAD_SECONDS + read() / limits.DOWNLOAD_RATE:
            raise LegacyModelError(
                f"{read()} bytes came in {seconds:.0f} s, expected at least "
                f"{limits.DOWNLOAD_RATE} a second after the first "
                f"{limits.DOWNLOAD_SECONDS} s.",
                "Download it yourself, and pass its path.",
                code="KP107",
            )
        thread.join(TICK)
    if raised:
        raise raised[0]
