"""A progress bar shows on a terminal, and only for what takes its time."""

import contextlib
import sys
import types

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


class Notebook:
    """IPython in the kernel of a notebook; keeps what it shows."""

    def __init__(self, monkeypatch):
        self.shown = []
        module = types.ModuleType("IPython.display")
        module.HTML, module.display = str, self.display
        package = types.ModuleType("IPython")
        package.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        package.display = module
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def display(self, state, display_id):
        assert display_id
        self.shown.append(state)
        return types.SimpleNamespace(update=self.shown.append)


def test_a_notebook_shows_a_bar_that_is_gone_in_the_end(monkeypatch):
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "AFTER_SECONDS", -1.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", -1.0)
    with progress.bar("Reading <b>\n", 2700) as advance:
        advance(600)
        advance(2100)
    bar = "Reading &lt;b&gt;\\n <progress value="
    assert notebook.shown == [
        f'{bar}"600" max="2700"></progress> 600 B/2.7 kB',
        f'{bar}"2700" max="2700"></progress> 2.7 kB/2.7 kB',
        "",
    ]


def test_a_notebook_shows_nothing_for_what_is_fast(monkeypatch):
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "AFTER_SECONDS", 3600.0)
    with contextlib.suppress(ZeroDivisionError), progress.bar("x", 2, False) as advance:
        advance(1)
        raise ZeroDivisionError
    assert notebook.shown == []


def test_a_bar_inside_another_one_is_not_shown(monkeypatch):
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "AFTER_SECONDS", -1.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", -1.0)
    with progress.bar("Converting", 2, is_bytes=False) as advance:
        advance(1)
        with progress.bar("Reading x", 100) as inner:
            inner(100)
        advance(1)
    tail = 'max="2"></progress>'
    expected = [f'Converting <progress value="{n}" {tail} {n}/2' for n in (1, 2)]
    assert notebook.shown == [*expected, ""]


def test_names_are_no_markup_in_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER_SECONDS", -1.0)
    monkeypatch.setattr(sys, "stderr", Terminal(is_terminal=True))
    with progress.bar("[red]x\n", 100) as advance:
        advance(60)
    assert "[red]x\\n" in sys.stderr.written
