"""How Keras reads the configs of tf.keras, and what it writes for our classes.

Keras: src/api_export.py, src/dtype_policies/*.py, src/legacy/saving/*.py,
src/saving/*.py.
"""

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import keras

from keras_policies.keras_internals.patches import (
    Function,
    Inside,
    as_stock,
    replaces,
    second_try,
)
from keras_policies.keras_internals.private_api import MISSING, READING, SAVING

Config: TypeAlias = dict[str, Any]


# True while weights and optimizer are saved without a model.
saving_weights_only = Inside()


@replaces("keras.src.saving.saving_lib.save_weights_only", needs=SAVING)
def _save_weights_only(stock: Function, *args: Any, **kwargs: Any) -> None:
    with saving_weights_only:
        stock(*args, **kwargs)


def read_policy_name(make: Callable[[Any], keras.DTypePolicy | None]) -> None:
    """Let `make(name)` return the policy of a name that Keras does not know."""

    @replaces("keras.src.dtype_policies.get", needs=READING)
    def get(stock: Function, identifier: Any) -> Any:
        try:
            return stock(identifier)
        except ValueError:
            policy = None if as_stock else make(identifier)
            if policy is None:
                raise
            return policy


def around_load_from_hdf5(hook: Callable[..., keras.Model]) -> None:
    """Run `hook(stock, path, **options)` where `keras.models.load_model` reads HDF5."""
    place = "keras.src.legacy.saving.legacy_h5_format.load_model_from_hdf5"

    @replaces(place, needs=READING)
    def load_model_from_hdf5(stock: Function, *args: Any, **kwargs: Any) -> Any:
        options = inspect.signature(stock).bind(*args, **kwargs)
        options.apply_defaults()
        return hook(stock, **options.arguments)


@contextlib.contextmanager
def custom_object_scope(custom_objects: Config | None) -> Iterator[None]:
    """Open a scope that adds custom objects to those of the scope around it."""
    with keras.saving.custom_object_scope({}) as empty:
        around = empty.backup  # what it replaces
    with keras.saving.custom_object_scope({**around, **(custom_objects or {})}):
        yield


def save_class_as(cls: type, name: str) -> None:
    """Write instances of `cls` to files under the public name of another class."""
    if SAVING not in MISSING:
        from keras.src import api_export

        api_export.REGISTERED_OBJS_TO_NAMES[cls] = name


def read_lost_classes(
    known: str, modules: Iterable[str], readers: Mapping[str, type]
) -> None:
    """Let readers, `{class name: reader}`, read configs of classes that Keras lacks.

    `deserialize` of the package `known` finds them, also for configs that name one of
    `modules`. (Global custom objects would win over a user's own classes.)
    """
    if READING not in MISSING:
        from keras.src import api_export

        table = importlib.import_module(f"keras.src.{known}").ALL_OBJECTS_DICT
        for name, reader in readers.items():
            # Optimizers are looked up in lower case.
            table[name.lower() if known == "optimizers" else name] = reader
            # `deserialize` also asks for the public name of the class that it found.
            for module in modules:
                api_export.register_internal_serializable(f"{module}.{name}", reader)


def read_lost_class(reader_of: Callable[[Any], type | None]) -> None:
    """Let `reader_of(config)` return the class that Keras cannot find, or None."""

    @replaces("keras.src.saving.serialization_lib._retrieve_class_or_fn", needs=READING)
    def retrieve(stock: Function, *args: Any, full_config: Any, **kwargs: Any) -> Any:
        reader = None if as_stock else reader_of(full_config)
        first = functools.partial(stock, *args, full_config=full_config, **kwargs)
        return second_try(first, lambda: reader) if reader else first()

    @replaces(
        "keras.src.legacy.saving.serialization."
        "class_and_config_for_serialized_keras_object",
        needs=READING,
    )
    def class_and_config(stock: Function, config: Any, *rest: Any, **k: Any) -> Any:
        reader = None if as_stock else reader_of(config)
        first = functools.partial(stock, config, *rest, **k)
        if reader is None:
            return first()
        return second_try(first, lambda: (reader, config["config"]))


@contextlib.contextmanager
def importing_no_tensorflow() -> Iterator[None]:
    """Keep Keras from importing TensorFlow only to ask whether it has to save a part.

    Keras: src/saving/serialization_lib.py (`serialize_keras_object`).
    """
    from keras.src.utils import module_utils

    lazy = vars(module_utils.tensorflow)
    is_known = lazy.get("_available", False) is not None
    if "tensorflow" in sys.modules or is_known:  # or another thread is inside
        yield
        return
    lazy["_available"] = False
    try:
        yield
    finally:
        lazy["_available"] = None
