"""The content of a legacy file, as frozen values that do not depend on its format.

The readers create a `LegacyModel`; `plan/` and `assembly/` turn it into a Keras model.
Tensors are only described here: `LegacyWeight.read` fetches one at a time.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from keras_policies._common.types import Config, Path
from keras_policies.legacy.base.traced_functions import TracedFunctions
from keras_policies.legacy.base.weights import Array, LayerWeights, LegacyWeight

Release: TypeAlias = tuple[int, int]
NEWEST = 2, 15
# With so few digits, a search from each digit of a long number stays short.
RELEASE = re.compile(r"(?<!\d)(\d{1,4})\.(\d{1,4})[.\d]*(-tf)?")
Inputs: TypeAlias = dict[str, tuple[tuple[int | None, ...], str]]  # shape and dtype


@dataclasses.dataclass(frozen=True)
class LegacySlot:
    """A variable that an optimizer keeps for one variable of the model."""

    name: str  # of the slot in tf.keras, such as "m"
    variable: LegacyWeight | int  # an int is its position among trainable variables
    value: LegacyWeight


@dataclasses.dataclass(frozen=True)
class LegacyOptimizerState:
    """The variables of an optimizer, as far as the file holds them."""

    iterations: int | None = None
    slots: tuple[LegacySlot, ...] = ()
    momenta: float | None = None  # the product of Nadam's momenta so far
    loss_scale: float | None = None  # the current one
    good_steps: int | None = None  # finite steps since the loss scale last changed
    is_unread: bool = False  # the file holds variables that nothing tells apart


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The learned state of a preprocessing layer that Keras 3 keeps in its config."""

    # By index, as stored, with any special tokens that the file has.
    tokens: Mapping[int, bytes | str | int] = dataclasses.field(default_factory=dict)
    weights: tuple[LegacyWeight, ...] = ()  # such as inverse document frequencies

    def weight(self, *names: str) -> Array | None:
        """Return the weight with one of these names as an array, or None."""
        for weight in self.weights:
            if (weight.path or weight.name).rpartition("/")[2] in names:
                return weight.read()
        return None


@dataclasses.dataclass(frozen=True)
class LegacyModel:
    """The content of a legacy file.

    A layer's path consists of the names of the models around it and its own name, such
    as `"encoder/words"`. For a layer inside another layer it consists of attributes,
    without leading underscores.
    """

    path: str  # of the file or folder
    format: str  # "SavedModel", "H5" or "Keras 2 .keras"
    written_by: str  # such as "TensorFlow 2.4.4"
    config: Config  # as written, {"class_name": str, "config": dict or None}
    records_policies: bool  # TensorFlow 2.0 wrote only the dtypes of variables
    # For each layer of a Sequential or Functional model, {"": (...)} for other models.
    weights: LayerWeights
    training_config: Config | None  # as written
    optimizer: LegacyOptimizerState
    # Whether `compile` had wrapped the optimizer in a dynamic loss scale. In a .keras
    # file, only the optimizer's variables show this, not `training_config`.
    is_optimizer_wrapped: bool = False
    policy: Any = None  # the model's own as written, a name or a config
    inputs: Inputs = dataclasses.field(default_factory=dict)  # of the serving signature
    # By the path of the layer.
    vocabularies: Mapping[str, Vocabulary] = dataclasses.field(default_factory=dict)
    # Dtypes, as written, of layers inside other layers; only a SavedModel records them.
    inner_policies: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # States of stateful RNNs; only a SavedModel records them.
    states: LayerWeights = dataclasses.field(default_factory=dict)
    traced: TracedFunctions | None = None  # the functions of a SavedModel
    not_converted: tuple[str, ...] = ()  # what the file has around the model
    has_weights: bool = True  # False if the file holds only an architecture
    weights_file: Path | None = None  # which the user passed with an architecture

    @property
    def lacks_weights(self) -> bool:
        """bool, whether there are no weights, so that the model gets new ones."""
        return not self.has_weights and self.weights_file is None

    @property
    def size(self) -> int:
        """int, the size of all weights in bytes."""
        return sum(item.size for items in self.weights.values() for item in items)

    @property
    def release(self) -> Release:
        """The release of TensorFlow that wrote the file, or that matches its Keras."""
        return release(self.written_by)


def release(written_by: str) -> Release:
    """Return the release of TensorFlow that wrote a file, or that matches its Keras.

    Example:
        >>> release("TensorFlow 2.4.4"), release("Keras 2.4.0"), release("Keras 2.3.1")
        ((2, 4), (2, 4), (2, 0))
        >>> release("Keras 2.2.4-tf")  # or 2.0
        (2, 1)
    """
    match = RELEASE.search(written_by)
    if not match:
        return NEWEST
    major, minor = int(match[1]), int(match[2])
    if match[3]:  # 2.3.0-tf is the Keras of TensorFlow 2.2
        return major, minor - 1
    is_standalone = written_by.startswith("Keras") and (major, minor) < (2, 4)
    return (2, 0) if is_standalone else (major, minor)
