"""The table of everything that the import changes in Keras, one row an attribute.

`keras_policies.patches()` and docs/patches.md are made from this table;
`tests/package/test_patches.py` compares it with Keras before and after the import.
`patched` replaces other functions only while a context is open.
"""

import collections
import contextlib
import functools
import importlib
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from keras_policies.keras_internals.private_api import MISSING

Function = Callable[..., Any]  # of Keras, whose types nothing declares
Owner = type | types.ModuleType
Attribute = tuple[Owner, str]  # with the name of the attribute


class Patch(NamedTuple):
    """An attribute of Keras that the import replaces.

    Attributes:
        place: str, the dotted name of the attribute.
        what: str, what it does now.
        why: str, what would not work without it.
        since: str, the first Keras with such a place.
    """

    place: str
    what: str
    why: str
    since: str = "3.0"


_ROWS = (
    (
        "keras.Layer.__call__",
        "gives a layer with a deferred policy its dtype before the call",
        '`Policy("infer")`; layers with any other policy pay for one comparison',
    ),
    (
        "keras.Layer.add_weight",
        "gives a layer with a deferred policy its dtype before it creates a weight",
        "layers with deferred policies that are built before they are called",
    ),
    (
        "keras.Sequential._maybe_build",
        "gives the first layer its dtype before the model builds itself",
        "Sequential models under deferred policies",
    ),
    (
        "keras.src.dtype_policies.get",
        "reads the name of a policy of ours, if Keras does not know it",
        '`dtype="infer"`; layers read under a global policy of ours; quantizing layers '
        "under `float16_with_float32_vars`",
        "3.3",
    ),
    (
        "keras.DTypePolicy.from_config",
        "returns the global policy for a config without a name, if that is ours",
        "layers saved before a deferred policy was settled",
    ),
    (
        "keras.Model.compile",
        "wraps the optimizer of a model whose policy is ours, as its loss scale says",
        "`Policy(..., loss_scale=...)`; other models are compiled as always",
    ),
    (
        "keras.Model._aggregate_additional_loss",
        "returns a float16 loss of a layer in `floatx`, in models that use ours",
        "activity regularizers in float16 layers on TensorFlow",
        "3.8",
    ),
    (
        "keras.Model.from_config",
        "gives the model the global policy, if that is ours and has the same dtypes; "
        "reads configs with policies of tf.keras, if Keras has failed",
        "files hold no loss scale; `keras.models.model_from_json` of tf.keras models",
    ),
    ("keras.Sequential.from_config", "the same", "the same"),
    (
        "keras.Model.compile_from_config",
        "gives the model the global policy, if that is ours and has the same dtypes",
        "models from files whose classes have a `from_config` of their own",
    ),
    (
        "keras.src.legacy.saving.legacy_h5_format.load_model_from_hdf5",
        "reads HDF5 files with policies of tf.keras, if Keras has failed",
        "`keras.models.load_model` of such files",
    ),
    (
        "keras.models.load_model",
        "adds a note to Keras's error if `keras_policies.load_model` opens the file",
        "SavedModels and `.keras` files of tf.keras",
    ),
    ("keras.saving.load_model", "the same", "the same"),
    (
        "keras.src.saving.serialization_lib._retrieve_class_or_fn",
        "reads the configs of tf.keras's policies, if Keras has failed",
        '`keras.saving.deserialize_keras_object({"class_name": "PolicyV1", ...})`',
    ),
    (
        "keras.src.legacy.saving.serialization."
        "class_and_config_for_serialized_keras_object",
        "the same for `keras.utils.legacy.deserialize_keras_object`",
        "configs of tf.keras's policies",
    ),
    (
        "keras.optimizers.LossScaleOptimizer.from_config",
        "reads the configs of tf.keras, if Keras has failed, as ours; and, inside "
        "`keras_policies.load_model`, those with a rule of ours",
        '`{"dynamic": False}`, `{"optimizer", "loss_scale"}`; a fixed scale in a file',
    ),
    (
        "keras.src.saving.saving_lib.save_weights_only",
        "notes that weights are saved without a model",
        "weights-only checkpoints keep the loss scale of a policy",
    ),
    (
        "keras.layers.RNN.load_assets",
        "reads the states of a stateful RNN, if the file has them",
        "`.keras` files of models that `keras_policies.load_model` opened",
    ),
)
TABLE = {place: Patch(place, *row) for place, *row in _ROWS}
_installed: set[str] = set()


def patches() -> list[Patch]:
    """Return what the import changes in Keras, one `Patch` for each attribute.

    A row is missing where Keras has moved the place: see `UnsupportedKerasError`.

    Example:
        >>> patches()[0].place
        'keras.Layer.__call__'
    """
    return [patch for place, patch in TABLE.items() if place in _installed]


def owners(place: str) -> tuple[list[Owner], str]:
    """Return the owners of the attribute at a place, and the attribute's name.

    Keras 3.8 puts other modules in the place of `keras.models` and `keras.saving` when
    these are imported by name, so there may be two.
    """
    path, _, attribute = place.rpartition(".")
    above, _, last = path.rpartition(".")
    parent = importlib.import_module(above)
    owner: Owner | None = getattr(parent, last, None)
    if isinstance(owner, type):
        # Keras compares methods of a model with those of its trainer.
        is_model = owner.__name__ == "Model"
        return [owner_of(owner, attribute) if is_model else owner], attribute
    module = importlib.import_module(path)
    return [*dict.fromkeys((owner or module, module))], attribute


def install_at(place: str, make_wrapper: Callable[[Function], Function]) -> None:
    """Replace the function at a place of the table by `make_wrapper(stock)`.

    A second call for a place replaces the first wrapper instead of wrapping it. The
    stock function and the wrapper of a class method take the class first.
    """
    _installed.add(place)
    holders, attribute = owners(place)
    for owner in holders:
        static = inspect.getattr_static(owner, attribute)
        is_classmethod = isinstance(static, classmethod)
        current = static.__func__ if is_classmethod else static
        stock = getattr(current, "_keras_policies_stock", current)
        wrapper = functools.wraps(stock)(make_wrapper(stock))
        # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
        signature = inspect.signature(stock)
        vars(wrapper).update(__signature__=signature, _keras_policies_stock=stock)
        setattr(owner, attribute, classmethod(wrapper) if is_classmethod else wrapper)


def replaces(place: str, needs: str | None = None) -> Callable[[Function], Function]:
    """Replace the function at a place; the decorated one gets it as first argument.

    If a capability is missing, nothing is replaced.
    """

    def decorate(function: Function) -> Function:
        if needs not in MISSING:
            install_at(place, lambda stock: lambda *a, **k: function(stock, *a, **k))
        return function

    return decorate


def adds(place: str, function: Function) -> None:
    """Give a class of Keras a method that it does not define itself."""
    _installed.add(place)
    (owner,), attribute = owners(place)
    setattr(owner, attribute, function)


class Inside(threading.local):
    """A context that is true while this thread is inside it."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1

    def __bool__(self) -> bool:
        return self.depth > 0


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an error. Python 3.10 keeps it, but does not show it."""
    vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), text]


# Inside, an error of Keras's own function is final: there is no second try.
as_stock = Inside()
Made = TypeVar("Made")


def second_try(first: Callable[[], Made], second: Callable[[], Made]) -> Made:
    """Return `first()`, or `second()` if it fails; raise the first error if both do."""
    if as_stock:
        return first()
    try:
        with as_stock:
            return first()
    except Exception as error:
        try:
            return second()
        except Exception as ours:
            reason = f"{type(ours).__name__}: {ours}"
            add_note(error, f"keras_policies cannot read it either: {reason}")
        raise


def owner_of(cls: type, attribute: str) -> type:
    """Return the class, `cls` or one that it inherits from, that defines a member.

    Keras compares members of classes to find out what users override, so a member has
    to be replaced where it is defined.
    """
    return next(base for base in cls.__mro__ if attribute in vars(base))


# Attribute -> the function that this thread calls there.
_here: ContextVar[Mapping[Attribute, Function]] = ContextVar(
    "_here", default=types.MappingProxyType({})
)
# Attribute -> the function that asks `_here`; the number of contexts in all threads.
_dispatchers: dict[Attribute, Function] = {}
_open: collections.Counter[Attribute] = collections.Counter()
_lock = threading.Lock()


@contextlib.contextmanager
def patched(owner: Owner, attribute: str, function: Function) -> Iterator[None]:
    """Replace a function of Keras in this thread while the context is open.

    `function` takes the stock function first, which other threads still call. When no
    thread is inside any more, the attribute is restored.
    """
    place = owner, attribute
    with _lock:
        _open[place] += 1
        if _open[place] == 1:
            _dispatchers[place] = _dispatcher(place)
            setattr(owner, attribute, _dispatchers[place])
    token = _here.set({**_here.get(), place: function})
    try:
        yield
    finally:
        _here.reset(token)
        with _lock:
            _open[place] -= 1
            dispatch = None if _open[place] else _dispatchers.pop(place)
            # Somebody else may have replaced it since; their function calls stock's.
            if dispatch and inspect.getattr_static(owner, attribute) is dispatch:
                setattr(owner, attribute, vars(dispatch)["__wrapped__"])


def _dispatcher(place: Attribute) -> Function:
    """Return a function that calls this thread's function for a place."""
    stock = inspect.getattr_static(*place)

    @functools.wraps(stock)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        function = _here.get().get(place)
        return function(stock, *args, **kwargs) if function else stock(*args, **kwargs)

    # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
    vars(dispatch).update(__signature__=inspect.signature(stock))
    return dispatch
