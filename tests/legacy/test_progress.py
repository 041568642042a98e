"""A progress bar shows on a terminal, and only for what takes its time."""

import sys

import pytest

from keras_policies.legacy import progress


class Terminal:
    """A stderr that keeps what is written."""

    encoding = "utf-8"

    def __init__(self, is_terminal):
        self.is_terminal = is_terminal
        self.written = ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.written += text

    def flush(self):
        pass


@pytest.mark.parametrize(
    ("is_terminal", "after", "shows"),
    [
        pytest.param(True, -1.0, True, id="slow-on-a-terminal"),
        pytest.param(True, 3600.0, False, id="fast"),
        pytest.param(False, -1.0, False, id="in-a-pipe"),
    ],
)
def test_the_bar_shows_when_it_should(monkeypatch, is_terminal, after, shows):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER_SECONDS", after)
    monkeypatch.setattr(sys, "stderr", Terminal(is_terminal))
    with progress.bar("Loading x", 100) as advance:
        advance(60)
        advance(40)
    assert ("Loading x" in sys.stderr.written) == shows
