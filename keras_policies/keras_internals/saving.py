"""What Keras writes for our classes, and reads for those of tf.keras.

Keras: src/api_export.py, src/dtype_policies/*.py, src/legacy/saving/*.py,
src/models/*.py, src/saving/*.py.
"""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import keras

from keras_policies.keras_internals.patches import replaces
from keras_policies.keras_internals.private_api import READING, SAVING, installs
from keras_policies.keras_internals.wrapping import (
    Function,
    Inside,
    add_note,
    as_stock,
    replaced,
    second_try,
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

    @replaces("keras.src.saving.saving_lib.save_weights_only")
    def save_weights_only(stock: Function, *args: Any, **kwargs: Any) -> None:
        with saving_weights_only:
            stock(*args, **kwargs)


mark_saving_of_weights()


def read_unnamed_policy(choose: Callable[[], keras.DTypePolicy | None]) -> None:
    """Let `choose()` say what `DTypePolicy {"name": None}` is; None leaves it to Keras.

    Keras takes the name of the global policy, which may be one that only we know.
    """

    @replaces("keras.DTypePolicy.from_config")
    def from_config(stock: Function, cls: type, config: Config) -> Any:
        is_unnamed = cls is keras.DTypePolicy and config.get("name") is None
        return (choose() if is_unnamed else None) or stock(cls, config)


@installs(READING)
def read_policy_name(make: Callable[[Any], keras.DTypePolicy | None]) -> None:
    """Let `make(name)` return the policy of a name that Keras does not know."""

    @replaces("keras.src.dtype_policies.get")
    def get(stock: Function, identifier: Any) -> Any:
        try:
            return stock(identifier)
        except ValueError:
            policy = None if as_stock else make(identifier)
            if policy is None:
                raise
            return policy


def around_model_from_config(
    hook: Callable[[Callable[[Config], keras.Model], str, Config], keras.Model],
) -> None:
    """Run `hook(make, class name, config)` where stock `make(config)` makes a model."""

    def from_config(
        stock: Function, cls: type, config: Config, *args: Any, **kwargs: Any
    ) -> keras.Model:
        def make(config: Config) -> keras.Model:
            model: keras.Model = stock(cls, config, *args, **kwargs)
            return model

        name = "Sequential" if issubclass(cls, keras.Sequential) else "Model"
        return hook(make, name, config)

    for owner in "keras.Model", "keras.Sequential":
        replaces(f"{owner}.from_config")(from_config)


@installs(READING)
def around_load_from_hdf5(hook: Callable[..., keras.Model]) -> None:
    """Run `hook(stock, path, **options)` where `keras.models.load_model` reads HDF5."""

    @replaces("keras.src.legacy.saving.legacy_h5_format.load_model_from_hdf5")
    def load_model_from_hdf5(stock: Function, *args: Any, **kwargs: Any) -> Any:
        options = inspect.signature(stock).bind(*args, **kwargs)
        options.apply_defaults()
        return hook(stock, **options.arguments)


def explain_refused(hint: Callable[[Any], str | None]) -> None:
    """Let an error of `keras.saving.load_model` have the note `hint(filepath)`."""
    for place in "keras.models.load_model", "keras.saving.load_model":

        @replaces(place)
        def load_model(stock: Function, filepath: Any, *args: Any, **k: Any) -> Any:
            try:
                return stock(filepath, *args, **k)
            except (TypeError, ValueError) as error:
                text = None
                with contextlib.suppress(Exception):  # the error is that of Keras
                    text = hint(filepath)
                if text is not None:
                    add_note(error, text)
                raise


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


@installs(READING)
def read_policy_class(
    class_name: str, modules: Iterable[str], reader: type[ReadsConfigs]
) -> None:
    """Let `reader.from_config` read the policy configs of a class that Keras has lost.

    The class is not put among the global custom objects, which would take precedence
    over a user's own class of that name.
    """
    from keras.src import api_export, dtype_policies

    dtype_policies.ALL_OBJECTS_DICT[class_name] = reader
    for module in modules:
        # Also the other way: `deserialize` asks for the public name of what it found.
        api_export.register_internal_serializable(f"{module}.{class_name}", reader)


@installs(READING)
def read_lost_class(reader_of: Callable[[Any], type[ReadsConfigs] | None]) -> None:
    """Let `reader_of(config)` return the class of an object that Keras cannot find.

    Keras looks among custom objects first. It raises its own error for None.
    """

    @replaces("keras.src.saving.serialization_lib._retrieve_class_or_fn")
    def retrieve(stock: Function, *args: Any, full_config: Any, **kwargs: Any) -> Any:
        reader = None if as_stock else reader_of(full_config)
        first = functools.partial(stock, *args, full_config=full_config, **kwargs)
        return second_try(first, lambda: reader) if reader else first()

    @replaces(
        "keras.src.legacy.saving.serialization."
        "class_and_config_for_serialized_keras_object"
    )
    def class_and_config(stock: Function, config: Any, *rest: Any, **k: Any) -> Any:
        reader = None if as_stock else reader_of(config)
        first = functools.partial(stock, config, *rest, **k)
        if reader is None:
            return first()
        return second_try(first, lambda: (reader, config["config"]))


@contextlib.contextmanager
def importing_no_tensorflow() -> Iterator[None]:
    """Keep Keras from importing TensorFlow only to ask whether it is to save a part.

    That takes seconds, and where TensorFlow is not imported, nothing is a part of it.
    Keras: src/saving/serialization_lib.py (`serialize_keras_object`).
    """
    from keras.src.utils import module_utils

    lazy = module_utils.tensorflow
    is_known = vars(lazy).get("_available", False) is not None
    if "tensorflow" in sys.modules or is_known:  # or another thread is inside
        yield
        return
    with replaced(lazy, "_available", value=False):
        yield
