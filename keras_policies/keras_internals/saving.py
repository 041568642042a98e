"""What Keras writes for our classes, and reads for those of tf.keras."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import keras
from keras.src import api_export, dtype_policies
from keras.src.backend.common import global_state
from keras.src.legacy.saving import legacy_h5_format

from keras_policies.keras_internals.wrapping import Function, wrap

Config = dict[str, Any]


class ReadsConfigs(Protocol):
    """A class whose `from_config` makes an object of a config."""

    @staticmethod
    def from_config(config: Config) -> Any: ...


def read_unnamed_policy(choose: Callable[[], keras.DTypePolicy | None]) -> None:
    """Let `choose()` say what `DTypePolicy {"name": None}` is; None leaves it to Keras.

    Keras: src/dtype_policies/dtype_policy.py takes the name of the global policy, which
    may be one that only this package knows.
    """

    def make_wrapper(stock: Function) -> Function:
        def from_config(cls: type, config: Config) -> Any:
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
