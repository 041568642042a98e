"""Calls hooks before layers are built and called.

Keras: src/layers/layer.py, src/models/sequential.py.
"""

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import backend, ops, tree
from keras.src.layers import layer as layer_module
from keras.src.models import functional

from keras_policies.keras_internals.layers import PolicyMap, own_policy
from keras_policies.keras_internals.patches import install_at, replaces
from keras_policies.keras_internals.private_api import GRAPHS, INFER, needs
from keras_policies.keras_internals.wrapping import Function, patched


def before_layer_call(
    hook: Callable[[keras.Layer, tuple[Any, ...], dict[str, Any]], None],
) -> None:
    """Call `hook(layer, args, kwargs)` before a call of a layer without a dtype.

    Its policy has no compute dtype, or is a `DTypePolicyMap`, whose entry may have
    none. A layer with any other policy pays for one dict lookup and one comparison.
    """

    def make_wrapper(stock: Function) -> Function:
        def __call__(self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
            policy = self.__dict__.get("_dtype_policy")
            if policy is not None and (
                policy.compute_dtype is None or isinstance(policy, PolicyMap)
            ):
                hook(self, args, kwargs)
            return stock(self, *args, **kwargs)

        return __call__

    install_at("keras.Layer.__call__", make_wrapper)


def before_weight(hook: Callable[[keras.Layer, str | None], None]) -> None:
    """Call `hook(layer, dtype)` before a layer without a dtype creates a weight.

    `dtype` is the argument of `add_weight`; None is the policy's variable dtype.
    """

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

    `Sequential.build` makes an input of its first layer's compute dtype, whatever the
    dtype of the call was.
    """

    @replaces("keras.Sequential._maybe_build", needs=INFER)
    def maybe_build(stock: Function, self: keras.Sequential, call_spec: Any) -> Any:
        if not self.built and self.layers:
            dtype = first_dtype([call_spec.first_arg])
            if dtype is not None:
                hook(self.layers[0], dtype)
        return stock(self, call_spec)


def first_dtype(structure: Any) -> str | None:
    """Return the dtype name of the first tensor in a nested structure, or None.

    Any object with `__array__` counts, with the dtype that Keras converts it to.
    """
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
    """Let Functional models take arrays of texts on backends without string tensors.

    Lookup layers accept them there; other layers do not.
    """

    def convert(stock: Function, self: keras.Model, flat_inputs: list[Any]) -> Any:
        texts = [first_dtype([x]) == "string" for x in flat_inputs]
        if not any(texts) or backend.backend() == "tensorflow":
            return stock(self, flat_inputs)
        return [
            x if is_text else ops.convert_to_tensor(x, dtype=spec.dtype)
            for x, is_text, spec in zip(flat_inputs, texts, self._inputs, strict=True)
        ]

    return patched(functional.Functional, "_convert_inputs_to_tensors", convert)


def layer_calls(
    note: Callable[[str, keras.Layer, Any], object],
) -> contextlib.AbstractContextManager[None]:
    """Call `note(path, layer, outputs)` after each call of a layer in the context.

    The path has the names of the layers around it and its own, without the outermost
    layer's, whose path is "". An inner layer comes before the one around it.
    """
    around: list[str] = []

    def __call__(stock: Function, self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
        around.append(self.name)
        try:
            outputs = stock(self, *args, **kwargs)
            note("/".join(around[1:]), self, outputs)
        finally:
            around.pop()
        return outputs

    return patched(keras.Layer, "__call__", __call__)
