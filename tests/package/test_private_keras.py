"""Private Keras is used in keras_internals alone, and each place is in its list."""

import ast
import functools
import importlib
import inspect
import pathlib
import pickle
import re
import sys

import keras
import pytest

import keras_policies
from keras_policies import keras_internals
from keras_policies.keras_internals import private_api

PACKAGE = pathlib.Path(keras_policies.__file__).parent
INTERNALS = PACKAGE / "keras_internals"

CONFIG = "ending of a key in the config of a layer"
FILE = "name in the files of tf.keras"
# Private names outside keras_internals that are not Keras's -> whose they are.
ALLOWED = {
    "'_constraint'": CONFIG,
    "'_initializer'": CONFIG,
    "'_iterations'": FILE,
    "'_lookup_layer'": FILE,
    "'_regularizer'": CONFIG,
    "'_u_product'": FILE,
    "'_variables'": FILE,
    "inner._around": "our own Reconstructor, in its own method",
    "inner._path": "our own Reconstructor, in its own method",
    "inner._rebuild": "our own Reconstructor, in its own method",
    "settled._dtypes": "our own Policy, in its own method",
    "settled._own_name": "our own Policy, in its own method",
    "os._exit": "Python's",
    "sys._getframe": "Python's",
    "tensor._version": "torch's",
    "torch._amp_foreach_non_finite_check_and_unscale_": "torch's",
    "torch._foreach_div": "torch's",
    "vars(figure)['_repr_png_']": "IPython's",
}
BY_NAME = {"delattr", "getattr", "hasattr", "setattr"}


def test_private_keras_is_in_one_place():
    leaning = {
        p.parent for p in PACKAGE.rglob("*.py") if "keras.src" in p.read_text("utf8")
    }
    assert leaning == {INTERNALS}


def test_the_place_for_private_keras_knows_nothing_of_ours():
    for path in (PACKAGE / "keras_internals").glob("*.py"):
        ours = re.findall(
            r"(?:from|import) (keras_policies[\w.]*)", path.read_text("utf8")
        )
        assert all(name.startswith("keras_policies.keras_internals") for name in ours)


def is_private(name):
    return isinstance(name, str) and re.fullmatch(r"_[a-zA-Z]\w*", name) is not None


@functools.cache
def attributes_in_keras():
    """Return the private attributes that objects of the installed Keras set."""
    folder = pathlib.Path(keras.__file__).parent / "src"
    text = "\n".join(path.read_text("utf8") for path in folder.rglob("*.py"))
    return frozenset(re.findall(r"self\.(_[a-zA-Z]\w*)(?= = |, self\._)", text))


def looked_up(node):
    """Return the string by which a node looks up an attribute of an object."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
        return getattr(node.args[1], "value", None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        held = ast.unparse(node.value)
        is_of_object = held.startswith("vars(") or held.endswith("__dict__")
        return node.slice.value if is_of_object else None
    return None


def shared_with_keras(node):
    """Return the private names that a class shares with its base classes in Keras."""
    written = [ast.unparse(base) for base in node.bases]
    bases = [eval(base) for base in written if base.startswith("keras.")]
    kinds = {kind for base in bases for kind in base.__mro__}
    theirs = set()
    for kind in kinds:
        if kind.__module__.startswith("keras."):
            theirs |= {*vars(kind), *re.findall(r"\b_\w+", inspect.getsource(kind))}
    own = {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef)}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self":
            own.add(part.attr)
    return {name for name in own & theirs if is_private(name)}


def private_uses(source):
    """Return the private names that the source of a module uses, except its own."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for name in shared_with_keras(node)}
        elif is_private(looked_up(node)):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.Constant):
            found |= {repr(node.value)} & set(map(repr, attributes_in_keras()))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            # `_replace` is a public method of named tuples, and of nothing in Keras.
            is_own = ast.unparse(node.value) in ("self", "cls")
            is_own = is_own or node.attr == "_replace"
            found |= set() if is_own else {ast.unparse(node)}
    return found


def test_private_attributes_of_keras_are_used_in_one_place():
    found = {
        path.relative_to(PACKAGE).as_posix(): private_uses(path.read_text("utf8"))
        for path in PACKAGE.rglob("*.py")
        if path.parent != INTERNALS
    }
    others = {path: sorted(uses - {*ALLOWED}) for path, uses in found.items()}
    assert {path: uses for path, uses in others.items() if uses} == {}
    assert set().union(*found.values()) >= {*ALLOWED}, "an allowance is not needed"


@pytest.mark.parametrize(
    ("source", "use"),
    [
        pytest.param("layer._dtype_policy", "layer._dtype_policy", id="attribute"),
        pytest.param(
            "def f(optimizer): optimizer.inner._iterations.assign(0)",
            "optimizer.inner._iterations",
            id="attribute-of-an-attribute",
        ),
        pytest.param("hasattr(x, '_gone')", "hasattr(x, '_gone')", id="by-name"),
        pytest.param("vars(layer)['_gone']", "vars(layer)['_gone']", id="vars"),
        pytest.param("SLOTS = {'Adam': '_momentums'}", "'_momentums'", id="table"),
        pytest.param(
            "class Own(keras.Operation):\n    def f(self): self._inbound_nodes",
            "Own._inbound_nodes",
            id="self-in-a-subclass",
        ),
        pytest.param(
            "class Own(keras.Layer):\n    def _maybe_build(self): pass",
            "Own._maybe_build",
            id="method-of-a-subclass",
        ),
    ],
)
def test_a_private_attribute_elsewhere_is_found(source, use):
    assert use in private_uses(source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("class Own:\n    def f(self): self._layers", id="own-class"),
        pytest.param("class Own(keras.Layer):\n    def _mine(self): pass", id="own"),
        pytest.param("keys = ['_of_a_file', '_']", id="other-strings"),
        pytest.param("x.__class__", id="dunder"),
    ],
)
def test_a_name_of_our_own_is_not(source):
    assert private_uses(source) == set()


LISTED = sorted(
    {place for found in private_api.PRIVATE_API.values() for place in found}
)


def moved():
    """Return `{capability: (what was expected, what was found)}`."""
    errors = private_api.missing()
    return {name: (error.expected, error.found) for name, error in errors.items()}


def leaning_on(*listed):
    """Return the capabilities that lean on one of the listed places."""
    return {name for name, own in private_api.PRIVATE_API.items() if {*own} & {*listed}}


def test_nothing_is_missing_from_this_keras():
    assert private_api.MISSING == {}


@pytest.mark.parametrize("place", LISTED, ids=str)
def test_a_private_name_that_is_gone_is_named(place, monkeypatch):
    owner = importlib.import_module(f"keras.src.{place.module}")
    *owners, last = place.name.removesuffix(".fget").split(".")
    for part in owners:
        owner = getattr(owner, part)
    monkeypatch.delattr(owner, last)
    name = f"keras.src.{place.module}.{'.'.join([*owners, last])}"
    found = moved()
    assert {*found} >= leaning_on(place)
    assert all(expected.startswith(name) for expected, _ in found.values())
    assert all(there.startswith("none: ") for _, there in found.values())


def test_a_private_module_that_is_gone_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras.src.ops.node", None)
    assert [*moved()] == [private_api.GRAPHS]


def replace(monkeypatch, place, function):
    """Let a function stand at a place that is looked up again."""
    owner = importlib.import_module(f"keras.src.{place.module}")
    *owners, last = place.name.removesuffix(".fget").split(".")
    for part in owners:
        owner = getattr(owner, part)
    is_property = place.name.endswith(".fget")
    monkeypatch.setattr(owner, last, property(function) if is_property else function)


@pytest.mark.parametrize("place", [p for p in LISTED if p.takes], ids=str)
def test_a_private_function_that_takes_something_else_is_named(place, monkeypatch):
    replace(monkeypatch, place, lambda other: other)
    expected = f"{place}({', '.join(place.takes)})"
    assert dict.fromkeys(
        leaning_on(place), (expected, f"{place.name}(other)")
    ).items() <= (moved().items())


def test_slots_that_are_gone_are_named():
    optimizer = keras.optimizers.Adam()
    optimizer.build([keras.Variable([1.0])])
    assert keras_internals.slot_names(optimizer)[:2] == ["m", "v"]
    for name in "_momentums", "_velocities", "_velocity_hats":
        vars(optimizer).pop(name, None)
    expected = "slots.*_momentums or _velocities or _velocity_hats in Adam, found none"
    with pytest.raises(private_api.UnsupportedKerasError, match=expected):
        keras_internals.slot_names(optimizer)


def test_the_error_says_what_is_lost_and_what_still_works():
    error = private_api.UnsupportedKerasError(
        private_api.SAVING,
        "keras.src.api_export.NAMES",
        "none",
        (private_api.INFER, "loss"),
    )
    assert str(error) == (
        f"keras_policies cannot do this with Keras {keras.__version__}: saving "
        "policies. Expected keras.src.api_export.NAMES, found none. Keras 3.8 to 3.16 "
        "are known to work: install one of them, or a newer keras-policies. Still "
        "working: policies that wait for an input, loss."
    )
    assert isinstance(error, ImportError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
