"""What Keras writes for our classes, and reads for those of tf.keras."""

import contextlib
import copy
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import keras
from keras.src import api_export, dtype_policies
from keras.src.backend.common import global_state
from keras.src.dtype_policies import dtype_policy
from keras.src.legacy.saving import legacy_h5_format
from keras.src.saving import saving_lib, serialization_lib
from keras.src.utils import module_utils

from keras_policies.keras_internals.layers import sublayers
from keras_policies.keras_internals.policies import held_policy
from keras_policies.keras_internals.trainers import opening_a_file
from keras_policies.keras_internals.wrapping import Function, wrap

Config: TypeAlias = dict[str, Any]


class ReadsConfigs(Protocol):
    """A class whose `from_config` makes an object of a config."""

    @staticmethod
    def from_config(config: Config) -> Any: ...


class _SavingWeights(threading.local):
    """Whether this thread is saving weights without their model."""

    now = False


_saving_weights = _SavingWeights()


def is_saving_weights_only() -> bool:
    """Return whether what is being saved is weights and optimizer, without a model.

    Keras: src/saving/saving_lib.py, `save_weights_only`.
    """
    return _saving_weights.now


def mark_saving_of_weights() -> None:
    """Let `is_saving_weights_only` know."""

    def make_wrapper(stock: Function) -> Function:
        def save_weights_only(model: keras.Model, *args: Any, **kwargs: Any) -> None:
            _saving_weights.now = True
            try:
                stock(model, *args, **kwargs)
            finally:
                _saving_weights.now = False

        return save_weights_only

    wrap(saving_lib, "save_weights_only", make_wrapper)


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
    `serialize_dict` copies the configs of layers inside others.
    """

    def keep(stock: Function) -> Function:
        def get_config(self: keras.Layer) -> Config:
            config: Config = stock(self)
            policy, written = held_policy(self), config.get("dtype")
            if not is_kept(policy) or not isinstance(written, dict):
                return config
            kept = KeptPolicy(written["config"], policy)
            return {**config, "dtype": {**written, "config": kept}}

        return get_config

    def copy_others(stock: Function) -> Function:
        def serialize_dict(obj: Config) -> Any:
            return obj if isinstance(obj, KeptPolicy) else stock(obj)

        return serialize_dict

    wrap(keras.Layer, "get_config", keep)
    wrap(serialization_lib, "serialize_dict", copy_others)
    wrap(keras.Operation, "from_config", _pass_unnamed_policies)


def _pass_unnamed_policies(stock: Function) -> Function:
    """Make layers from unnamed policies themselves: Keras would take their names.

    Keras: src/ops/operation.py, `Operation.from_config`.
    """

    def from_config(cls: type, config: Config) -> Any:
        dtype = config.get("dtype")
        written = dtype.get("config") if isinstance(dtype, dict) else None
        if isinstance(written, dict) and written.get("name", "") is None:
            config = {**config, "dtype": keras.dtype_policies.deserialize(dtype)}
        return stock(cls, config)

    return from_config


def read_quantized_name(translate: Callable[[str], str]) -> None:
    """Read names such as "float8_from_mixed_float16" as `translate(name)` says.

    Keras: src/dtype_policies/dtype_policy.py.
    """

    def make_wrapper(stock: Function) -> Function:
        def _get_quantized_dtype_policy_by_str(policy: Any) -> Any:
            return stock(translate(policy) if isinstance(policy, str) else policy)

        return _get_quantized_dtype_policy_by_str

    wrap(dtype_policy, "_get_quantized_dtype_policy_by_str", make_wrapper)


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

    Keras: src/dtype_policies/dtype_policy.py takes the name of the global policy, which
    may be one that only this package knows.
    """

    def make_wrapper(stock: Function) -> Function:
        def from_config(cls: type, config: Config) -> Any:
            if isinstance(config, KeptPolicy):
                return config.policy
            if cls is keras.DTypePolicy and config.get("name") is None:
                chosen = choose()
                if chosen is not None:
                    return chosen
            return stock(cls, config)

        return from_config

    wrap(keras.DTypePolicy, "from_config", make_wrapper)


def before_model_from_config(hook: Callable[[str, Config], Config]) -> None:
    """Make models from the config that `hook(class name, config)` returns.

    Keras: src/models/{model,sequential}.py, `from_config`.
    """

    def make_wrapper(class_name: str, stock: Function) -> Function:
        def from_config(
            cls: type, config: Config, custom_objects: Config | None = None
        ) -> keras.Model:
            return stock(cls, hook(class_name, config), custom_objects)

        return from_config

    for owner in keras.Model, keras.Sequential:
        wrap(owner, "from_config", functools.partial(make_wrapper, owner.__name__))


def around_load_from_hdf5(hook: Callable[..., keras.Model]) -> None:
    """Run `hook(stock, path, **options)` where `keras.models.load_model` reads HDF5.

    Keras: src/legacy/saving/legacy_h5_format.py, `load_model_from_hdf5`.
    """

    def make_wrapper(stock: Function) -> Function:
        def load_model_from_hdf5(filepath: Any, *args: Any, **kwargs: Any) -> Any:
            options = inspect.signature(stock).bind(filepath, *args, **kwargs)
            options.apply_defaults()
            with opening_a_file():
                return hook(stock, **options.arguments)

        return load_model_from_hdf5

    wrap(legacy_h5_format, "load_model_from_hdf5", make_wrapper)


@contextlib.contextmanager
def custom_object_scope(custom_objects: Config | None) -> Iterator[None]:
    """Open a scope of custom objects that adds to the scope around it.

    Keras: src/saving/object_registration.py; its own scope replaces the one around it.
    """
    around = global_state.get_global_attribute("custom_objects_scope_dict", {})
    with keras.saving.custom_object_scope({**around, **(custom_objects or {})}):
        yield


def save_class_as(cls: type, name: str) -> None:
    """Write instances of `cls` to files under the public name of another class.

    Keras: src/api_export.py.
    """
    api_export.REGISTERED_OBJS_TO_NAMES[cls] = name


def read_policy_class(
    class_name: str, modules: Iterable[str], reader: type[ReadsConfigs]
) -> None:
    """Let `reader.from_config` read the policy configs of a class that Keras has lost.

    The class is not put among the global custom objects, which would take precedence
    over a user's own class of that name.

    Keras: src/dtype_policies/__init__.py (`deserialize`) and src/api_export.py.
    """
    dtype_policies.ALL_OBJECTS_DICT[class_name] = reader
    for module in modules:
        api_export.REGISTERED_NAMES_TO_OBJS[f"{module}.{class_name}"] = reader
        # `deserialize` asks for the public name of what it has looked up.
        save_class_as(reader, f"{module}.{class_name}")


@contextlib.contextmanager
def importing_no_tensorflow() -> Iterator[None]:
    """Keep Keras from importing TensorFlow only to ask whether it is to save a part.

    That takes seconds, and where TensorFlow is not imported, nothing is a part of it.
    Keras: src/saving/serialization_lib.py (`serialize_keras_object`).
    """
    lazy = module_utils.tensorflow
    known = lazy._available
    if "tensorflow" not in sys.modules:
        lazy._available = False
    try:
        yield
    finally:
        lazy._available = known
