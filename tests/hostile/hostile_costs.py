"""Measures what it costs to open files, each in a process of its own.

Reads lines of JSON, `[action, path]`, and answers each with a line of JSON. Each input
is opened by a process forked from this one, which has imported all that is needed. It
first opens a small model the same way, and what that takes is not counted. With the
backend numpy, this process has done that.
"""

import functools
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import time
import warnings

import hostile_worker

# What an input may cost: the least, and for each byte of its files. A loop is a million
# rounds of nothing, timed beside the input: a busy machine is slower at both.
LOOPS, LOOPS_PER_BYTE = 200, 1e-4  # some 5 s, and 2.5 s for each megabyte
BYTES, BYTES_PER_BYTE = 300e6, 10  # of memory
# When a process is ended; the test then fails.
MAX_LOOPS = 8 * LOOPS
MAX_WAIT, ADDRESS_SPACE = 900, 24 * 1024**3
# Action -> the small model that is opened first.
SMALL = {
    "convert": "more.tar.xz/2.15.1/amsgrad/model.h5",
    "inspect": "lost/2.15.1.tar.xz/2.15.1/module_signatures/model",
    "load": "lost/2.15.1.tar.xz/2.15.1/module_signatures/model",
    "weights": "more.tar.xz/2.15.1/amsgrad/checkpoint",
}


def size_of(folder):
    """Return the bytes of the regular files in a folder."""
    every = (path.lstat() for path in pathlib.Path(folder).rglob("*"))
    return sum(found.st_size for found in every)


def problem(found, size):
    """Return what is wrong with a cost, or None; `size` is that of the input."""
    if found["outcome"] not in ("opened", "refused"):
        return f"{found['outcome']}: {found['detail']}"
    loops = LOOPS + LOOPS_PER_BYTE * size
    most = BYTES + BYTES_PER_BYTE * size
    if found["loops"] > loops or found["bytes"] > most:
        return (
            f"{found['loops']:.0f} loops and {found['bytes'] / 1e6:.0f} MB, at most "
            f"{loops:.0f} loops and {most / 1e6:.0f} MB: {found['detail']}"
        )
    return None


def opened(action, path):
    """Open an input; return a digest of what came out."""
    import keras_policies

    if action == "inspect":
        return hostile_worker.signature(keras_policies.inspect_model(path), [])
    if action == "load":
        return hostile_worker.loaded(path)
    if action == "weights":
        return hostile_worker.with_weights(path)
    with tempfile.TemporaryDirectory() as folder:
        found = keras_policies.convert_model(path, pathlib.Path(folder, "new.keras"))
        return hostile_worker.signature(found.parts, [])


def attempt(action, path):
    """Return `(outcome, digest or message)` of opening an input."""
    from keras_policies import LegacyModelError

    try:
        return "opened", opened(action, pathlib.Path(path))
    except LegacyModelError as error:
        return "refused", str(error)[:2000]
    except BaseException as error:
        return "another error", f"{type(error).__name__}: {error}"[:2000]


@functools.cache
def open_small(action):
    """Open the small model of an action, once."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        hostile_worker.write(hostile_worker.original(SMALL[action]), folder)
        small = next(folder.iterdir()) if action == "convert" else folder
        outcome, detail = attempt(action, small)
    if outcome != "opened":
        raise RuntimeError(detail)


def cost(action, path):
    """Return `{outcome, detail, loops, bytes}` of opening an input."""
    open_small(action)
    before = hostile_worker.loop()
    hostile_worker.reset_peak()
    base, start = hostile_worker.peak(), _seconds()
    outcome, detail = attempt(action, path)
    seconds, peak = _seconds() - start, hostile_worker.peak()
    return {
        "outcome": outcome,
        "detail": detail,
        "loops": seconds / max(before, hostile_worker.loop()),
        "bytes": peak - base,
    }


def _seconds():
    import resource  # POSIX

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _forked(action, path):
    """Return the cost of an input, measured in a process of its own."""
    import resource  # POSIX

    answers, answer = os.pipe()
    child = os.fork()
    if child == 0:
        seconds = int(MAX_LOOPS * hostile_worker.loop()) + 1  # of processor time
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        os.write(answer, json.dumps(cost(action, path)).encode())
        os._exit(0)
    os.close(answer)
    end, text = time.monotonic() + MAX_WAIT, b""
    while select.select([answers], [], [], max(0, end - time.monotonic()))[0]:
        part = os.read(answers, 65536)
        if not part:
            break
        text += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(answers)
    _, status = os.waitpid(child, 0)
    if text:
        return json.loads(text)
    return {"outcome": "ended", "detail": f"status {os.waitstatus_to_exitcode(status)}"}


def least(action, path):
    """Return the cost of an input; the least of three if it is too much.

    Other programs make a process slower, but never faster.
    """
    size = size_of(path) if os.path.isdir(path) else os.path.getsize(path)
    found = _forked(action, path)
    for _ in range(2):
        if "loops" not in found or problem(found, size) is None:
            break
        again = _forked(action, path)
        found["loops"] = min(found["loops"], again.get("loops", found["loops"]))
    return found


def main():
    import resource  # POSIX

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps the output of libraries out of the answers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import keras

    import keras_policies._installed
    import keras_policies.legacy.conversion
    import keras_policies.legacy.readers.hdf5
    import keras_policies.legacy.readers.keras_archive
    import keras_policies.legacy.readers.saved_model.saved_model  # noqa: F401

    for action, source in SMALL.items():
        hostile_worker.original(source)
        if keras.backend.backend() == "numpy":  # others start threads, which end here
            open_small(action)
    answers.write("ready\n")
    for line in sys.stdin:
        answers.write(json.dumps(least(*json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
