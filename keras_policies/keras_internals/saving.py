"""What Keras writes for our classes, and reads for those of tf.keras.

Keras: src/api_export.py, src/dtype_policies/*.py, src/legacy/saving/*.py,
src/models/*.py, src/saving/*.py.
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import keras
from keras.src import api_export, dtype_policies
from keras.src.backend.common import global_state
from keras.src.dtype_policies import dtype_policy
from keras.src.legacy.saving import legacy_h5_format
from keras.src.saving import saving_lib, serialization_lib

from keras_policies.keras_internals.layers import held_policy, sublayers
from keras_policies.keras_internals.trainers import opening_a_file
from keras_policies.keras_internals.wrapping import Function, Inside, instead_of

Config: TypeAlias = dict[str, Any]


class ReadsConfigs(Protocol):
    """A class whose `from_config` makes an object of a config."""

    @staticmethod
    def from_config(config: Config) -> Any: ...


_saving_weights = Inside()


def is_saving_weights_only() -> bool:
    """Return whether what is being saved is weights and optimizer, without a model."""
    return _saving_weights.depth > 0


@instead_of(saving_lib, "save_weights_only")
def _save_weights_only(stock: Function, *args: Any, **kwargs: Any) -> None:
    with _saving_weights:
        stock(*args, **kwargs)


class KeptPolicy(Config):
    """The config of a policy, which also holds the policy until it goes into a file."""

    def __init__(self, config: Config, policy: keras.DTypePolicy) -> None:
        super().__init__(config)
        self.policy = policy


def keep_policies_in_memory(is_kept: Callable[[keras.DTypePolicy], bool]) -> None:
    """Let the configs of layers hold the policies for which `is_kept(policy)` holds.

    A layer that is made from such a config in the same process gets the policy itself.
    JSON has the plain config.

    Keras: src/layers/layer.py, `Layer.get_config`; src/saving/serialization_lib.py,
    `serialize_dict` copies the configs of layers inside others; src/ops/operation.py,
    `Operation.from_config` takes only the name of a policy.
    """

    @instead_of(keras.Layer, "get_config")
    def get_config(stock: Function, self: keras.Layer) -> Config:
        config: Config = stock(self)
        policy, written = held_policy(self), config.get("dtype")
        if not is_kept(policy) or not isinstance(written, dict):
            return config
        kept = KeptPolicy(written["config"], policy)
        return {**config, "dtype": {**written, "config": kept}}

    @instead_of(serialization_lib, "serialize_dict")
    def serialize_dict(stock: Function, obj: Config) -> Any:
        return obj if isinstance(obj, KeptPolicy) else stock(obj)

    @instead_of(keras.Operation, "from_config")
    def from_config(stock: Function, cls: type, config: Config) -> Any:
        dtype = config.get("dtype")
        written = dtype.get("config") if isinstance(dtype, dict) else None
        if isinstance(written, dict) and written.get("name", "") is None:
            config = {**config, "dtype": keras.dtype_policies.deserialize(dtype)}
        return stock(cls, config)


def read_quantized_name(translate: Callable[[str], str]) -> None:
    """Read names such as "float8_from_mixed_float16" as `translate(name)` says."""

    @instead_of(dtype_policy, "_get_quantized_dtype_policy_by_str")
    def quantized(stock: Function, policy: Any) -> Any:
        return stock(translate(policy) if isinstance(policy, str) else policy)


def after_deepcopy(hook: Callable[[keras.Layer, keras.Layer], None]) -> None:
    """Call `hook(original, copied)` for each layer inside one that `deepcopy` copies.

    Keras: src/saving/keras_saveable.py copies by way of a file.
    """

    def __deepcopy__(self: keras.Layer, memo: dict[int, Any]) -> Any:
        reconstruct = vars(copy)["_reconstruct"]  # what deepcopy itself does
        copied = reconstruct(self, memo, *self.__reduce_ex__(4))
        for original, clone in zip(sublayers(self), sublayers(copied), strict=False):
            hook(original, clone)
        return copied

    keras.Layer.__deepcopy__ = __deepcopy__


def read_unnamed_policy(choose: Callable[[], keras.DTypePolicy | None]) -> None:
    """Let `choose()` say what `DTypePolicy {"name": None}` is; None leaves it to Keras.

    Keras takes the name of the global policy, which may be one that only we know.
    """

    @instead_of(keras.DTypePolicy, "from_config")
    def from_config(stock: Function, cls: type, config: Config) -> Any:
        if isinstance(config, KeptPolicy):
            return config.policy
        is_unnamed = cls is keras.DTypePolicy and config.get("name") is None
        return (choose() if is_unnamed else None) or stock(cls, config)


def before_model_from_config(hook: Callable[[str, Config], Config]) -> None:
    """Make models from the config that `hook(class name, config)` returns."""

    def from_config(
        stock: Function, cls: type, config: Config, *args: Any, **kwargs: Any
    ) -> keras.Model:
        name = "Sequential" if issubclass(cls, keras.Sequential) else "Model"
        return stock(cls, hook(name, config), *args, **kwargs)

    for owner in keras.Model, keras.Sequential:
        instead_of(owner, "from_config")(from_config)


def around_load_from_hdf5(hook: Callable[..., keras.Model]) -> None:
    """Run `hook(stock, path, **options)` where `keras.models.load_model` reads HDF5."""

    @instead_of(legacy_h5_format, "load_model_from_hdf5")
    def load_model_from_hdf5(stock: Function, *args: Any, **kwargs: Any) -> Any:
        options = inspect.signature(stock).bind(*args, **kwargs)
        options.apply_defaults()
        with opening_a_file:
            return hook(stock, **options.arguments)


@contextlib.contextmanager
def custom_object_scope(custom_objects: Config | None) -> Iterator[None]:
    """Open a scope that adds custom objects to those of the scope around it."""
    around = global_state.get_global_attribute("custom_objects_scope_dict", {})
    with keras.saving.custom_object_scope({**around, **(custom_objects or {})}):
        yield


def save_class_as(cls: type, name: str) -> None:
    """Write instances of `cls` to files under the public name of another class."""
    api_export.REGISTERED_OBJS_TO_NAMES[cls] = name


def read_policy_class(
    class_name: str, modules: Iterable[str], reader: type[ReadsConfigs]
) -> None:
    """Let `reader.from_config` read the policy configs of a class that Keras has lost.

    The class is not put among the global custom objects, which would take precedence
    over a user's own class of that name.
    """
    dtype_policies.ALL_OBJECTS_DICT[class_name] = reader
    for module in modules:
        api_export.REGISTERED_NAMES_TO_OBJS[f"{module}.{class_name}"] = reader
        # `deserialize` asks for the public name of what it has looked up.
        save_class_as(reader, f"{module}.{class_name}")
