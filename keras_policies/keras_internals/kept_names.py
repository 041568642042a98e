"""What Keras does to policy objects that it was given."""

from typing import TypeVar

import keras

Kind = TypeVar("Kind", bound=keras.DTypePolicy)


def keeps_its_name(cls: type[Kind]) -> type[Kind]:
    """Class decorator: `_name`, which Keras reads and sets, is always `name`.

    Keras: src/dtype_policies/dtype_policy_map.py, `get_config` sets `_name` of the
    policies in the map to None.
    """
    cls._name = property(lambda self: self.name, lambda self, value: None)
    return cls
