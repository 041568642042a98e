"""What Keras writes for our classes, and reads for those of tf.keras.

Keras: src/api_export.py, src/dtype_policies/*.py, src/legacy/saving/*.py,
src/models/*.py, src/saving/*.py.
"""

import contextlib
import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import keras
from keras.dtype_policies import DTypePolicyMap, QuantizedDTypePolicy

from keras_policies.keras_internals.layers import held_policy, sublayers
from keras_policies.keras_internals.private_api import (
    INFER,
    MISSING,
    READING,
    SAVING,
    installs,
    require,
)
from keras_policies.keras_internals.trainers import opening_a_file
from keras_policies.keras_internals.wrapping import (
    Function,
    Inside,
    instead_of,
    replaced,
)

Config: TypeAlias = dict[str, Any]


class ReadsConfigs(Protocol):
    """A class whose `from_config` makes an object of a config."""

    @staticmethod
    def from_config(config: Config) -> Any: ...


# In it, weights and optimizer are saved without a model.
saving_weights_only = Inside()


@installs(SAVING)
def mark_saving_of_weights() -> None:
    """Let `saving_weights_only` know."""
    from keras.src.saving import saving_lib

    @instead_of(saving_lib, "save_weights_only")
    def save_weights_only(stock: Function, *args: Any, **kwargs: Any) -> None:
        with saving_weights_only:
            stock(*args, **kwargs)


mark_saving_of_weights()


class KeptPolicy(Config):
    """The config of a policy, which also holds the policy until it goes into a file."""

    def __init__(self, config: Config, policy: keras.DTypePolicy) -> None:
        super().__init__(config)
        self.policy = policy


@installs(INFER)
def keep_policies_in_memory(is_kept: Callable[[keras.DTypePolicy], bool]) -> None:
    """Let the configs of layers hold the policies for which `is_kept(policy)` holds.

    A layer that is made from such a config in the same process gets the policy itself.
    JSON has the plain config.

    Keras: src/layers/layer.py, `Layer.get_config`; src/saving/serialization_lib.py,
    `serialize_dict` copies the configs of layers inside others.
    """
    from keras.src.saving import serialization_lib

    @instead_of(keras.Layer, "get_config")
    def get_config(stock: Function, self: keras.Layer) -> Config:
        config: Config = stock(self)
        policy, written = held_policy(self), config.get("dtype")
        if not is_kept(policy) or not isinstance(written, dict):
            return config
        policy_config = KeptPolicy(written["config"], policy)
        return {**config, "dtype": {**written, "config": policy_config}}

    @instead_of(serialization_lib, "serialize_dict")
    def serialize_dict(stock: Function, obj: Config) -> Any:
        return obj if isinstance(obj, KeptPolicy) else stock(obj)


def read_quantized_name(translate: Callable[[str], str]) -> None:
    """Take `translate(name)` for the name of the policy that a layer is quantized from.

    The public classes of `keras.dtype_policies` differ in their other arguments.
    """

    def __init__(
        stock: Function,
        self: QuantizedDTypePolicy,
        mode: str,
        source_name: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if isinstance(source_name, str):
            source_name = translate(source_name)
        stock(self, mode, source_name, *args, **kwargs)

    for cls in vars(keras.dtype_policies).values():
        is_quantized = isinstance(cls, type) and issubclass(cls, QuantizedDTypePolicy)
        if is_quantized and "__init__" in vars(cls):
            instead_of(cls, "__init__")(__init__)


def keep_names_in_maps(kind: type[keras.DTypePolicy]) -> None:
    """Let the config of a `DTypePolicyMap` keep the names of the policies of a class.

    Keras leaves out all names if the map has no default policy.
    """

    @instead_of(DTypePolicyMap, "get_config")
    def get_config(stock: Function, self: DTypePolicyMap) -> Config:
        config: Config = stock(self)
        for path, policy in self.items():
            if isinstance(policy, kind):
                config["policy_map"][path]["config"] = policy.get_config()
        return config


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

    @instead_of(keras.Operation, "from_config")
    def make(stock: Function, cls: type, config: Config) -> Any:
        """Make layers from unnamed policies themselves: Keras would take the names."""
        dtype = config.get("dtype")
        refuse_lost_policy(dtype)
        written = dtype.get("config") if isinstance(dtype, dict) else None
        if isinstance(written, dict) and written.get("name", "") is None:
            config = {**config, "dtype": keras.dtype_policies.deserialize(dtype)}
        return stock(cls, config)


def before_model_from_config(hook: Callable[[str, Config], Config]) -> None:
    """Make models from the config that `hook(class name, config)` returns."""

    def from_config(
        stock: Function, cls: type, config: Config, *args: Any, **kwargs: Any
    ) -> keras.Model:
        name = "Sequential" if issubclass(cls, keras.Sequential) else "Model"
        return stock(cls, hook(name, config), *args, **kwargs)

    for owner in keras.Model, keras.Sequential:
        instead_of(owner, "from_config")(from_config)


@installs(READING)
def around_load_from_hdf5(hook: Callable[..., keras.Model]) -> None:
    """Run `hook(stock, path, **options)` where `keras.models.load_model` reads HDF5."""
    from keras.src.legacy.saving import legacy_h5_format

    @instead_of(legacy_h5_format, "load_model_from_hdf5")
    def load_model_from_hdf5(stock: Function, *args: Any, **kwargs: Any) -> Any:
        options = inspect.signature(stock).bind(*args, **kwargs)
        options.apply_defaults()
        with opening_a_file:
            return hook(stock, **options.arguments)


def explain_refused(hint: Callable[[Any], str | None]) -> None:
    """Let an error of `keras.saving.load_model` end with `hint(filepath)`, if any."""
    # Keras 3.8 puts other modules in the place of these when they are imported by name.
    by_name = map(importlib.import_module, ("keras.saving", "keras.models"))
    for module in {keras.saving, keras.models, *by_name}:

        @instead_of(module, "load_model")
        def load_model(stock: Function, filepath: Any, *args: Any, **k: Any) -> Any:
            try:
                return stock(filepath, *args, **k)
            except (TypeError, ValueError) as error:
                text = hint(filepath)
                if text is None:
                    raise
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{error} {text}") from None


@contextlib.contextmanager
def custom_object_scope(custom_objects: Config | None) -> Iterator[None]:
    """Open a scope that adds custom objects to those of the scope around it."""
    with keras.saving.custom_object_scope({}) as empty:
        around = empty.backup  # what it replaces
    with keras.saving.custom_object_scope({**around, **(custom_objects or {})}):
        yield


@installs(SAVING)
def save_class_as(cls: type, name: str) -> None:
    """Write instances of `cls` to files under the public name of another class."""
    from keras.src import api_export

    api_export.REGISTERED_OBJS_TO_NAMES[cls] = name


# Names of the policy classes that `read_policy_class` cannot let Keras read.
_lost: set[str] = set()


def refuse_lost_policy(dtype: Any) -> None:
    """Raise if the `dtype` of a layer is the config of a policy that cannot be read."""
    if isinstance(dtype, dict) and dtype.get("class_name") in _lost:
        require(READING)


def read_policy_class(
    class_name: str, modules: Iterable[str], reader: type[ReadsConfigs]
) -> None:
    """Let `reader.from_config` read the policy configs of a class that Keras has lost.

    The class is not put among the global custom objects, which would take precedence
    over a user's own class of that name.
    """
    if READING in MISSING:
        _lost.add(class_name)
        return
    from keras.src import api_export, dtype_policies

    dtype_policies.ALL_OBJECTS_DICT[class_name] = reader
    for module in modules:
        # Also the other way: `deserialize` asks for the public name of what it found.
        api_export.register_internal_serializable(f"{module}.{class_name}", reader)


@contextlib.contextmanager
def importing_no_tensorflow() -> Iterator[None]:
    """Keep Keras from importing TensorFlow only to ask whether it is to save a part.

    That takes seconds, and where TensorFlow is not imported, nothing is a part of it.
    Keras: src/saving/serialization_lib.py (`serialize_keras_object`).
    """
    from keras.src.utils import module_utils

    lazy = module_utils.tensorflow
    if "tensorflow" in sys.modules or "_available" not in vars(lazy):
        yield
        return
    with replaced(lazy, "_available", value=False):
        yield
