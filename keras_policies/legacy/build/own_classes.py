"""Has Keras make the objects of a user's own classes as tf.keras had made them.

A class makes layers of its own without `dtype=`, and they take the global policy of
that moment: in tf.keras that of the program that made the model. Here it is the policy
that the config of the object records, while the object is made and built.
"""

import contextlib
import functools

import keras

from keras_policies.global_policy import policy_scope
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.build import hints


class Maker:
    """Stands for a user's class while Keras makes an object of a config.

    Args:
        cls: class of the user's, of `keras.Layer`.
        policy: what the config records: a name, a policy, or None.
        where: str, file and layer, for errors.
    """

    def __init__(self, cls, policy, where):
        self.cls = cls
        self.policy = policy
        self.where = where

    def from_config(self, config):
        """Return the object, made under its policy; Keras calls this.

        Raises:
            LegacyModelError: if the class does not take its config.
        """
        with scope(self.policy):
            try:
                made = self.cls.from_config(config)
            except TypeError as error:
                raise LegacyModelError(self._refusal(config, error)) from error
        if isinstance(made, keras.Layer) and not made.built:
            _build_under(made, self.policy)
        return made

    def _refusal(self, config, error):
        name, reason = self.cls.__name__, hints.innermost(error).rstrip(".")
        cure = f"Give {name}.__init__ these arguments, and **kwargs that it passes to "
        cure += "super().__init__(**kwargs)"
        if "required positional argument" in reason:
            cure = f"The file does not record them: give them defaults in {name}"
        return (
            f"{self.where}: {name} cannot be made from its config, with "
            f"{sorted(config)}: {reason}. {cure}; if it is another class than the "
            "model's, pass the right one in custom_objects."
        )


def _build_under(layer, policy):
    """Have a layer built under a policy: some make their layers only then."""
    stock = layer.build

    @functools.wraps(stock)
    def build(*args, **kwargs):
        layer.build = stock
        with scope(policy):
            return stock(*args, **kwargs)

    layer.build = build


def is_stock(layer):
    """Return whether the class of a layer is Keras's own."""
    return type(layer).__module__.startswith("keras.")


def scope(policy):
    """Return a scope of the global policy; None, and one of integers, change nothing.

    Args:
        policy: a name of Keras's own, a `keras.DTypePolicy`, or None.
    """
    if isinstance(policy, str):
        policy = keras.DTypePolicy(policy)
    dtype = getattr(policy, "compute_dtype", None)
    if policy is None or (dtype and not keras.backend.is_float_dtype(dtype)):
        return contextlib.nullcontext()
    return policy_scope(policy)


def with_makers(config, path, policy=None):
    """Return `(config, {name: Maker})`: a config that names a `Maker` for each object.

    Each has a name of its own, as Keras prefers a registered class to one of a scope.

    Args:
        config: nest of dicts, lists and values, converted for Keras 3.
        path: str, the file, for errors.
        policy: of the model itself, whose config does not record it.
    """
    makers = {}

    def replaced(value):
        if isinstance(value, list | tuple):
            return [replaced(item) for item in value]
        if not isinstance(value, dict):
            return value
        inner = {key: replaced(item) for key, item in value.items()}
        cls = _own_class(value)
        if cls is None:
            return inner
        settings = value.get("config") or {}
        own = policy if value is config else settings.get("dtype")
        where = f"{path}: the layer {settings.get('name', cls.__name__)!r}"
        name = f"<{cls.__name__} {len(makers)}>"
        makers[name] = Maker(cls, own, path if value is config else where)
        return {**inner, "registered_name": name}

    return replaced(config), makers


def _own_class(config):
    """Return the user's class of layers that a config names, or None."""
    name = config.get("registered_name")
    if not isinstance(name, str) or "config" not in config:
        return None
    found = keras.saving.get_registered_object(name)
    is_layer = isinstance(found, type) and issubclass(found, keras.Layer)
    return found if is_layer else None
