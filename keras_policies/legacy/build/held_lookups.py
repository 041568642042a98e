"""Gives vocabularies to lookup layers inside user-defined layers and models.

Code makes these layers, empty, and no config names them. Their vocabularies are found
by the attributes that lead to them.
"""

from collections.abc import Mapping

import keras

from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.lookups import LOOKUPS, special_tokens
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.build import targets
from keras_policies.legacy.plan import lookups

CLASSES = tuple(getattr(keras.layers, name) for name in LOOKUPS)


def fill(model: keras.Model, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Fill the lookup layers of a model that are still empty, by their paths.

    Raises:
        LegacyModelError: if the file has no vocabulary for such a layer.
    """
    for layer, *paths in targets.layers(model, leaves=CLASSES):
        if isinstance(layer, CLASSES):
            found = [vocabularies[path] for path in paths if path in vocabularies]
            with located(layer=paths[0]):
                _fill(layer, found[0] if found else Vocabulary())


def _fill(layer: keras.Layer, learned: Vocabulary) -> None:
    kind = next(cls for cls in CLASSES if isinstance(layer, cls)).__name__
    config = layer.get_config()
    if layer.vocabulary_size() > len(special_tokens(kind, config)):
        return
    try:
        filled = lookups.lookup_arguments(kind, config, learned, safe_mode=True)
    except lookups.NothingLearnedError as error:
        raise LegacyModelError(f"this {kind} would be empty: {error}.") from None
    own, wanted = (item.get("num_oov_indices") for item in (config, filled))
    if own != wanted:
        raise LegacyModelError(
            f"this {kind} has num_oov_indices={own}, the file's layer has {wanted}.",
            f"Make it with num_oov_indices={wanted}.",
        )
    layer.set_vocabulary(filled["vocabulary"], filled["idf_weights"])
