"""Errors have the messages that docs/porting-reference.md lists."""

import pathlib

import keras
import pytest

import keras_policies as mp

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "porting-reference.md"
SECTION = PAGE.read_text("utf8").split("## Error messages\n")[1].split("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in SECTION.splitlines()
    if line.startswith("| `")
]


assert ROWS, "the page has no table of error messages"


@pytest.mark.parametrize(("line", "old", "here"), ROWS, ids=[row[0] for row in ROWS])
def test_a_message_is_the_one_in_the_table(line, old, here):
    names = {"mp": mp, "opt": keras.optimizers.SGD()}
    kind, _, words = here.replace("`", "").partition(": ")
    with pytest.raises((TypeError, ValueError, AttributeError)) as error:
        eval(line.strip("`"), names)
    assert str(error.value).startswith(words)
    for name in kind.split(" and "):
        assert isinstance(error.value, getattr(__builtins__, name, None) or KINDS[name])


KINDS = {kind.__name__: kind for kind in (TypeError, ValueError, AttributeError)}
