"""What Keras writes for our classes, and reads for those of tf.keras."""

import functools
import inspect

import keras
from keras.src import api_export, dtype_policies
from keras.src.backend.common import global_state
from keras.src.legacy.saving import legacy_h5_format

from keras_policies.keras_internals.seams import wrap


def read_unnamed_policy(choose):
    """Let `choose()` say what `DTypePolicy {"name": None}` is, or return None.

    Keras: src/dtype_policies/dtype_policy.py would take the global policy's
    name, which need not be a name that it knows.
    """
    stock = keras.DTypePolicy.from_config.__func__
    stock = getattr(stock, "_keras_policies_stock", stock)

    @functools.wraps(stock)
    def from_config(cls, config):
        if cls is keras.DTypePolicy and config.get("name") is None:
            chosen = choose()
            if chosen is not None:
                return chosen
        return stock(cls, config)

    from_config._keras_policies_stock = stock
    keras.DTypePolicy.from_config = classmethod(from_config)


def before_model_from_config(hook):
    """Let `hook(class name, config)` return the config that a model is made from.

    Keras: src/models/{model,sequential}.py, `from_config`.
    """
    for owner in keras.Model, keras.Sequential:
        _wrap_from_config(owner, hook)


def _wrap_from_config(owner, hook):
    stock = owner.__dict__["from_config"].__func__
    stock = getattr(stock, "_keras_policies_stock", stock)

    @functools.wraps(stock)
    def from_config(cls, config, custom_objects=None):
        return stock(cls, hook(owner.__name__, config), custom_objects)

    from_config._keras_policies_stock = stock
    owner.from_config = classmethod(from_config)


def around_load_from_hdf5(hook):
    """Let `hook(stock, path, **options)` load what `keras.models.load_model` gets.

    Keras: src/legacy/saving/legacy_h5_format.py, `load_model_from_hdf5`.
    """

    def make_wrapper(stock):
        def load_model_from_hdf5(filepath, *args, **kwargs):
            options = inspect.signature(stock).bind(filepath, *args, **kwargs)
            options.apply_defaults()
            return hook(stock, **options.arguments)

        return load_model_from_hdf5

    wrap(legacy_h5_format, "load_model_from_hdf5", make_wrapper)


def custom_object_scope(custom_objects):
    """Return a scope of custom objects that adds to the one around it.

    Keras: src/saving/object_registration.py; its own scope takes the other's place.
    """
    around = global_state.get_global_attribute("custom_objects_scope_dict", {})
    return keras.saving.custom_object_scope({**around, **(custom_objects or {})})


def save_class_as(cls, name):
    """Write instances of `cls` to files under another class's public name.

    Keras: src/api_export.py.
    """
    api_export.REGISTERED_OBJS_TO_NAMES[cls] = name


def read_policy_class(class_name, modules, reader):
    """Let `reader.from_config` read policy configs of a class Keras has lost.

    Keras: src/dtype_policies/__init__.py (`deserialize`) and src/api_export.py.
    Not the global custom objects, which would win over a user's own class.
    """
    dtype_policies.ALL_OBJECTS_DICT[class_name] = reader
    for module in modules:
        api_export.REGISTERED_NAMES_TO_OBJS[f"{module}.{class_name}"] = reader
        # `deserialize` asks for the public name of what it has looked up.
        save_class_as(reader, f"{module}.{class_name}")
