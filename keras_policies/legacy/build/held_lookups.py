"""Gives lookup layers in a user's own layers and models their vocabularies.

Such a layer is made by code, empty, and not from a config. It is found by the
attributes that lead to it.
"""

import keras

from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.lookups import LOOKUPS, special_tokens
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.build import targets
from keras_policies.legacy.plan import lookups

CLASSES = tuple(getattr(keras.layers, name) for name in LOOKUPS)


def fill(model, vocabularies, where):
    """Fill the lookup layers of a model that are still empty.

    Args:
        model: `keras.Model`.
        vocabularies: `{path: Vocabulary}`.
        where: str, the file, for errors.

    Raises:
        LegacyModelError: if there is none for a layer.
    """
    for paths, layer in targets.sublayers(model, CLASSES):
        config = layer.get_config()
        name = type(layer).__name__
        kind = next(item for item in CLASSES if isinstance(layer, item)).__name__
        if layer.vocabulary_size() > len(special_tokens(kind, config)):
            continue
        found = [vocabularies[path] for path in paths if path in vocabularies]
        named = f"{where}: the layer {paths[0]!r} ({name})"
        try:
            learned = found[0] if found else Vocabulary()
            with located(layer=paths[0]):
                filled = lookups.lookup_arguments(kind, config, learned, safe_mode=True)
        except lookups.NothingLearnedError as error:
            raise LegacyModelError(f"{named} would be empty: {error}.") from None
        if filled.get("num_oov_indices") != config.get("num_oov_indices"):
            raise LegacyModelError(
                f"{named}: make it with num_oov_indices={filled['num_oov_indices']}."
            )
        layer.set_vocabulary(filled["vocabulary"], filled["idf_weights"])
