"""Seams of layers: places where Keras is made to ask this package.

The seams of constructors are in `creation`, of `compile` in `trainers`, of files in
`saving`.
"""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from keras_policies.keras_internals.building import first_dtype
from keras_policies.keras_internals.layers import sublayers
from keras_policies.keras_internals.places import INFER, installs
from keras_policies.keras_internals.policies import PolicyMap, own_policy
from keras_policies.keras_internals.wrapping import Function, wrap


def before_layer_call(
    hook: Callable[[keras.Layer, tuple[Any, ...], dict[str, Any]], None],
) -> None:
    """Call `hook(layer, args, kwargs)` before a call of a layer without a dtype.

    Its policy has no compute dtype, or is a `DTypePolicyMap`, whose entry may have
    none. A layer with any other policy pays for one dict lookup and one comparison.

    Keras: src/layers/layer.py, `Layer.__call__`.
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

    wrap(keras.Layer, "__call__", make_wrapper)


def before_weight(hook: Callable[[keras.Layer, str | None], None]) -> None:
    """Call `hook(layer, dtype)` before a layer without a dtype creates a weight.

    `dtype` is the argument of `add_weight`; None stands for the variable dtype of the
    layer's policy. Keras: src/layers/layer.py, `Layer.add_weight`.
    """

    def make_wrapper(stock: Function) -> Function:
        signature = inspect.signature(stock)

        def add_weight(self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
            # Without super().__init__() there is no policy, and Keras says so.
            has_policy = "_dtype_policy" in self.__dict__
            if has_policy and own_policy(self).compute_dtype is None:
                bound = signature.bind(self, *args, **kwargs).arguments
                # Newer Keras takes (shape, initializer, dtype) in *args.
                positional = bound.get("args", ())
                dtype = positional[2] if len(positional) > 2 else bound.get("dtype")
                hook(self, dtype)
            return stock(self, *args, **kwargs)

        return add_weight

    wrap(keras.Layer, "add_weight", make_wrapper)


@installs(INFER)
def before_sequential_build(hook: Callable[[keras.Layer, str], None]) -> None:
    """Call `hook(first_layer, dtype)` before a Sequential that is called builds itself.

    Keras: src/models/sequential.py. `Sequential.build` makes an input of the compute
    dtype of its first layer, whatever dtype it was called on.
    """

    def make_wrapper(stock: Function) -> Function:
        def _maybe_build(self: keras.Sequential, call_spec: Any) -> Any:
            if not self.built and self.layers:
                dtype = first_dtype([call_spec.first_arg])
                if dtype is not None:
                    hook(self.layers[0], dtype)
            return stock(self, call_spec)

        return _maybe_build

    wrap(keras.Sequential, "_maybe_build", make_wrapper)


def after_bidirectional_init(hook: Callable[[keras.Layer, keras.Layer], None]) -> None:
    """Call `hook(original, clone)` for each pair of layers in a Bidirectional.

    Keras: src/layers/rnn/bidirectional.py clones its layer through the config, in
    which a deferred policy has no name.
    """

    def make_wrapper(stock: Function) -> Function:
        def __init__(
            self: layers.Bidirectional, layer: keras.Layer, *args: Any, **kwargs: Any
        ) -> None:
            stock(self, layer, *args, **kwargs)
            given = inspect.signature(stock).bind(self, layer, *args, **kwargs)
            clones = [self.forward_layer]
            if given.arguments.get("backward_layer") is None:
                clones.append(self.backward_layer)
            for clone in clones:
                for pair in zip(sublayers(layer), sublayers(clone), strict=True):
                    hook(*pair)

        return __init__

    wrap(layers.Bidirectional, "__init__", make_wrapper)
