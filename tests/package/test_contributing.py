"""CONTRIBUTING's map of the package names every module once, in the room it is in."""

import collections
import pathlib
import re

import keras_policies

PACKAGE = pathlib.Path(keras_policies.__file__).parent
MAP = pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md"


def listed(text):
    """Return the modules in the map, as paths below the package, in order."""
    rooms = re.split(r"^### `keras_policies/(.*)`$", text, flags=re.MULTILINE)[1:]
    return [
        room + name
        for room, rows in zip(rooms[::2], rooms[1::2], strict=True)
        for name in re.findall(r"^\| `(\w+\.py)` \|", rows, re.MULTILINE)
    ]


def test_every_module_is_listed_once_and_exists():
    modules = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    counts = collections.Counter(listed(MAP.read_text("utf8")))
    assert set(counts) == modules
    assert set(counts.values()) == {1}


def test_a_module_is_listed_under_its_room():
    text = (
        "### `keras_policies/`\n| `a.py` | x |\n### `keras_policies/b/`\n| `c.py` | y |"
    )
    assert listed(text) == ["a.py", "b/c.py"]
