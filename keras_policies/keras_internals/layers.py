"""Layers: their policies, parts, attributes and variables; hooks in their calls.

Keras: src/layers/layer.py, src/backend/{tensorflow,torch}/layer.py,
src/backend/common/name_scope.py, src/models/sequential.py.
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
from keras import backend, ops, tree
from keras.src.layers import layer as layer_module
from keras.src.models import functional

from keras_policies.keras_internals.patches import (
    Function,
    install_at,
    patched,
    replaces,
)
from keras_policies.keras_internals.private_api import (
    GRAPHS,
    INFER,
    MISSING,
    WEIGHTS,
    needs,
)

Kind = TypeVar("Kind", bound=keras.DTypePolicy)
Call = tuple[tuple[Any, ...], dict[str, Any]]  # args and kwargs
PolicyMap = keras.dtype_policies.DTypePolicyMap

# Attributes that Keras and its backends set on every layer.
_TRACKING_PREFIX = "_self_"  # of TensorFlow's trackable objects
_TRACKING = {
    *("_layers", "_metrics", "_modules", "_non_trainable_variables"),
    *("_seed_generators", "_torch_params", "_tracked", "_trainable_variables"),
    *("_functional", "_operations"),  # of a Sequential or Functional model
}


@needs(INFER)
def enclosing_layers() -> list[keras.Layer]:
    """Return the layers that are being built or called now, innermost first."""
    from keras.src.backend.common import global_state

    with keras.name_scope("innermost"):  # else there may be no stack
        *scopes, _ = global_state.get_global_attribute("name_scope_stack")
    return [s.caller for s in reversed(scopes) if isinstance(s.caller, keras.Layer)]


def sublayers(layer: keras.Layer) -> list[keras.Layer]:
    """Return `layer` and every layer in it, in a fixed order."""
    return list(layer._flatten_layers())


def parts(layer: keras.Layer) -> list[keras.Layer]:
    """Return the layers directly in a layer, without the InputLayers of a model."""
    if isinstance(layer, keras.Model):
        inner = layer.layers
    else:
        inner = layer._flatten_layers(include_self=False, recursive=False)
    return [part for part in inner if not isinstance(part, keras.layers.InputLayer)]


def parts_never_called(layer: keras.Layer) -> list[keras.Layer]:
    """Return the parts of a layer that it uses without building or calling them.

    AugMix and similar layers only call the method `transform_images` of their parts. On
    torch an RNN reads the weights of its cell.
    """
    is_rnn = isinstance(layer, keras.layers.RNN)
    return sublayers(layer)[1:] if is_rnn or hasattr(layer, "transform_images") else []


@needs(WEIGHTS)
def own_attributes(layer: keras.Layer) -> list[tuple[str, Any]]:
    """Return `[(name, value), …]`, the attributes that a layer's class has set."""
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}  # of torch
    return [
        (name, value)
        for name, value in sorted(attributes.items())
        if name not in _TRACKING and not name.startswith(_TRACKING_PREFIX)
    ]


@needs(WEIGHTS)
def own_variables(
    layer: keras.Layer,
) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Return the variables of a layer without its parts, those it trains and others."""
    return list(layer._trainable_variables), list(layer._non_trainable_variables)


# An attribute of a layer. TensorFlow does not track names with this prefix.
_GIVEN = "_self_keras_policies_given"


def noting_given_dtypes() -> contextlib.AbstractContextManager[None]:
    """Note, for each layer created in the context, whether it was passed a dtype.

    Keras keeps the policy alone, which the parts of a layer get from that layer.
    """

    def _init(stock: Function, self: keras.Layer, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        note_given(self, is_given=kwargs.get("dtype") is not None)

    return patched(keras.Layer, "__init__", _init)


def note_given(layer: keras.Layer, *, is_given: bool = True) -> None:
    """Note whether somebody chose the policy of a layer."""
    vars(layer)[_GIVEN] = is_given


def is_given(layer: keras.Layer) -> bool:
    """Return whether somebody chose the policy of a layer; True if unknown."""
    return bool(vars(layer).get(_GIVEN, True))


def held_policy(layer: keras.Layer) -> keras.DTypePolicy:
    """Return the policy object of a layer, which may be a `DTypePolicyMap`."""
    return layer._dtype_policy


def own_policy(layer: keras.Layer) -> keras.DTypePolicy:
    """Return the policy of a layer; from a `DTypePolicyMap`, the entry of its path."""
    policy = held_policy(layer)
    return policy[_path(layer)] if isinstance(policy, PolicyMap) else policy


def set_own_policy(layer: keras.Layer, policy: keras.DTypePolicy) -> None:
    """Give `layer` a policy; if it holds a `DTypePolicyMap`, an entry in a copy."""
    current = held_policy(layer)
    if isinstance(current, PolicyMap):
        memo = {id(other): other for other in current.values()}  # not copied
        copied, path = copy.deepcopy(current, memo), _path(layer)
        if path in copied:
            del copied[path]
        copied[path] = policy
        policy = copied
    layer._dtype_policy = policy


def _path(layer: keras.Layer) -> str:
    return str(layer.path or _path_of_unbuilt(layer))


@needs(INFER)
def _path_of_unbuilt(layer: keras.Layer) -> str:
    from keras.src.backend.common import name_scope

    parent = name_scope.current_path()
    return f"{parent}/{layer.name}" if parent else layer.name


def keeps_its_name(cls: type[Kind]) -> type[Kind]:
    """Class decorator: `_name` is always `name`.

    Keras: src/dtype_policies/dtype_policy_map.py, `get_config` sets it to None.
    """
    cls._name = property(lambda self: self.name, lambda self, value: None)
    return cls


def before_layer_call(
    hook: Callable[[keras.Layer, tuple[Any, ...], dict[str, Any]], None],
) -> None:
    """Call `hook(layer, args, kwargs)` before a call of a layer without a dtype."""

    def make_wrapper(stock: Function) -> Function:
        def __call__(self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
            policy = self.__dict__.get("_dtype_policy")
            if policy is not None and (
                policy.compute_dtype is None or isinstance(policy, PolicyMap)
            ):  # an entry of a map may have none
                hook(self, args, kwargs)
            return stock(self, *args, **kwargs)

        return __call__

    install_at("keras.Layer.__call__", make_wrapper)


def before_weight(hook: Callable[[keras.Layer, str | None], None]) -> None:
    """Call `hook(layer, dtype)` before a layer without a dtype creates a weight."""

    @replaces("keras.Layer.add_weight")
    def weight(stock: Function, self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
        # Without super().__init__() there is no policy, and Keras says so.
        has_policy = "_dtype_policy" in self.__dict__
        if has_policy and own_policy(self).compute_dtype is None:
            bound = inspect.signature(stock).bind(self, *args, **kwargs).arguments
            # Newer Keras takes (shape, initializer, dtype) in *args.
            positional = bound.get("args", ())
            dtype = positional[2] if len(positional) > 2 else bound.get("dtype")
            hook(self, dtype)
        return stock(self, *args, **kwargs)


def before_sequential_build(hook: Callable[[keras.Layer, str], None]) -> None:
    """Call `hook(first_layer, dtype)` before a call of a Sequential builds it.

    `Sequential.build` uses the dtype of its first layer, not that of the call.
    """

    @replaces("keras.Sequential._maybe_build", needs=INFER)
    def maybe_build(stock: Function, self: keras.Sequential, call_spec: Any) -> Any:
        if not self.built and self.layers:
            dtype = first_dtype([call_spec.first_arg])
            if dtype is not None:
                hook(self.layers[0], dtype)
        return stock(self, call_spec)


def first_dtype(structure: Any) -> str | None:
    """Return the dtype of the first tensor or array in a nested structure, or None."""
    for x in tree.flatten(structure):
        if ops.is_tensor(x) or backend.is_keras_tensor(x):
            return str(backend.standardize_dtype(x.dtype))
        if isinstance(x, np.ndarray) and x.dtype.kind in "OSTU":
            return "string"
        if hasattr(x, "__array__"):
            return str(backend.standardize_dtype(ops.convert_to_tensor(x).dtype))
    return None


@needs(INFER)
def build_for(layer: keras.Layer, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Build `layer` for a call, as steps 1 to 4 of `Layer.__call__` would."""

    def convert(x: Any) -> Any:
        return layer.dtype_policy.convert_input(x, autocast=False, dtype=None)

    if layer._convert_input_args:
        args, kwargs = tree.map_structure(convert, (args, kwargs))
    context = [layer._call_context_args] if hasattr(layer, "_call_context_args") else []
    spec = layer_module.CallSpec(layer._call_signature, *context, args, kwargs)
    with layer._open_name_scope():
        layer._maybe_build(spec)


@needs(GRAPHS)
def texts_as_inputs() -> contextlib.AbstractContextManager[None]:
    """Let Functional models take arrays of texts on backends without string tensors."""

    def convert(stock: Function, self: keras.Model, flat_inputs: list[Any]) -> Any:
        texts = [first_dtype([x]) == "string" for x in flat_inputs]
        if not any(texts) or backend.backend() == "tensorflow":
            return stock(self, flat_inputs)
        return [
            x if is_text else ops.convert_to_tensor(x, dtype=spec.dtype)
            for x, is_text, spec in zip(flat_inputs, texts, self._inputs, strict=True)
        ]

    return patched(functional.Functional, "_convert_inputs_to_tensors", convert)


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
    """Number automatic names from the start inside a context, as in a new process."""
    counters = _name_counters()
    before = {**counters}
    counters.clear()
    try:
        yield
    finally:
        counters.clear()
        counters.update(before)


@contextlib.contextmanager
def reserved_names(names: Iterable[str]) -> Iterator[None]:
    """Keep Keras from naming new layers like layers of a file, inside a context.

    The names in a model must be unique, and Keras does not count those in files.
    """
    counters = _name_counters()
    before = {**counters}
    for name in names:
        stem, _, number = name.rpartition("_")
        if number.isdecimal() and len(number) < 10:
            counters[stem] = max(counters.get(stem, 0), int(number) + 1)
        counters[name] = max(counters.get(name, 0), 1)
    reserved = {**counters}
    try:
        yield
    finally:
        for name, count in reserved.items():
            if counters.get(name) == count:  # no automatic name was near it
                del counters[name]
                counters.update({name: before[name]} if name in before else {})


def _name_counters() -> dict[str, int]:
    """Return the numbers of automatic names, by their stems."""
    if INFER in MISSING:  # names go on where they were, which is no error
        return {}
    from keras.src.backend.common import global_state

    keras.backend.get_uid("")  # creates the counters
    counters: dict[str, int] = global_state.get_global_attribute("object_name_uids")
    return counters


@contextlib.contextmanager
def computing_in(layer: keras.Layer, dtype: str) -> Iterator[None]:
    """Let a layer and its parts compute in a dtype inside a context."""
    layers = sublayers(layer)
    before = [held_policy(each) for each in layers]
    try:
        for each in layers:
            each._dtype_policy = keras.DTypePolicy(dtype)
        yield
    finally:
        for each, policy in zip(layers, before, strict=True):
            each._dtype_policy = policy


def layer_calls(
    note: Callable[[str, keras.Layer, Any], object],
) -> contextlib.AbstractContextManager[None]:
    """Call `note(path, layer, outputs)` after each call of a layer in the context.

    The path has the names of the layers around it and its own, without the outermost
    layer's, whose path is "". An inner layer comes before the one around it.
    """
    return calls_with_inputs(lambda path, layer, _, outputs: note(path, layer, outputs))


def calls_with_inputs(
    note: Callable[[str, keras.Layer, Call, Any], object],
) -> contextlib.AbstractContextManager[None]:
    """Call `note(path, layer, (args, kwargs), outputs)` as `layer_calls` does."""
    around: list[str] = []

    def __call__(stock: Function, self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
        around.append(self.name)
        try:
            outputs = stock(self, *args, **kwargs)
            note("/".join(around[1:]), self, (args, kwargs), outputs)
        finally:
            around.pop()
        return outputs

    return patched(keras.Layer, "__call__", __call__)
