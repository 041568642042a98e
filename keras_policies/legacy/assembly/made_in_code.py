"""Restores the policies of nested models, and of layers that classes make in code.

Configs have neither these policies nor the vocabularies of layers made in code. The
object graph of a SavedModel records the policies, by the attributes of the layers.
"""

import os
from collections.abc import Callable, Iterator, Mapping

import keras

from keras_policies import keras_internals
from keras_policies._common.types import PolicyLike
from keras_policies.legacy.assembly import targets
from keras_policies.legacy.assembly.own_classes import is_stock
from keras_policies.legacy.base.configs import LOOKUPS, layer_name, special_tokens
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.plan import preprocessing

AS_IN_FILE = (
    "Create it with the num_oov_indices, mask_token and oov_token that it had in the "
    "file."
)
CLASSES = tuple(getattr(keras.layers, name) for name in LOOKUPS)


def restore_models(
    model: keras.Model,
    recorded: Mapping[str, object],
    suggested: Mapping[str, object],
    policy_of: Callable[[object], PolicyLike | None],
) -> None:
    """Give nested Sequential and Functional models their own policies.

    `recorded` has the `dtype` in the file by the path of attributes. `suggested` has
    the one that a model's layers suggest, by the names of the layers on the path.
    """
    named = {"": ""}
    for layer, (path, *_) in targets.layers(model):
        if layer is model:
            continue
        around = os.path.dirname(path)
        while around not in named:
            around = os.path.dirname(around)
        named[path] = "/".join(filter(None, (named[around], layer.name)))
        if targets.is_graph(layer):
            written = recorded.get(path) or suggested.get(layer_name(named[path]))
            policy = _floating(policy_of(written))
            if policy is not None:
                layer.dtype_policy = policy
                keras_internals.note_given(layer)


def restore_policies(
    model: keras.Model,
    recorded: Mapping[str, object],
    policy_of: Callable[[object], PolicyLike | None],
) -> list[str]:
    """Give layers made in code the policies that a file records, where that is safe.

    Return the layers that keep another policy, each with both policies. `policy_of`
    converts a `dtype` in the file to a policy.
    """
    different = []
    for layer, paths in _made_in_code(model):
        written = next((recorded[path] for path in paths if path in recorded), None)
        policy = written and _floating(policy_of(written))
        current = _floating(keras_internals.own_policy(layer))
        if not policy or not current or policy.name == current.name:
            continue
        if _takes(layer, current, policy):
            keras_internals.set_own_policy(layer, policy)
        else:
            different.append(f"{paths[0]!r} ({current.name}, recorded {policy.name})")
    return different


def unrecorded_policies(model: keras.Model) -> list[str]:
    """Return a note on policies that a model's `.keras` file will lack, if any."""
    found = dict.fromkeys(
        f"{path!r} ({policy.name})"
        for layer, (path, *_) in _made_in_code(model)
        if (policy := _floating(keras_internals.own_policy(layer)))
        and policy.name != keras.config.floatx()
        and not keras_internals.is_given(layer)
    )
    note = (
        f"the policies of {', '.join(found)}, which a class of your own makes without "
        "dtype=: opened from the new file, these layers take the global policy, "
        "keras.config.set_dtype_policy(...)"
    )
    return [note] if found else []


def _made_in_code(model: keras.Model) -> Iterator[targets.Place]:
    """Yield the layers inside layers and models of user-defined classes."""
    prefixes: list[str] = []
    for place in targets.layers(model):
        if place.path.startswith(tuple(prefixes)):
            yield place
        if not is_stock(place.layer):
            prefixes.append(f"{place.path}/" if place.path else "")


def _floating(policy: PolicyLike | None) -> keras.DTypePolicy | None:
    """Return a floating-point policy, or None for others."""
    if isinstance(policy, str):
        policy = keras.DTypePolicy(policy)
    dtype = getattr(policy, "compute_dtype", None)
    return policy if dtype and keras.backend.is_float_dtype(dtype) else None


def _takes(
    layer: keras.Layer, current: keras.DTypePolicy, new: keras.DTypePolicy
) -> bool:
    """Return whether nobody chose the layer's policy, and nothing depends on it.

    Parts of a stock layer have the same policy, and weights its variable dtype.
    """
    is_alone = len(keras_internals.sublayers(layer)) == 1
    same_weights = not layer.weights or current.variable_dtype == new.variable_dtype
    is_free = same_weights and (is_alone or not is_stock(layer))
    return is_free and not keras_internals.is_given(layer)


def fill_lookups(model: keras.Model, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Fill the empty lookup layers of a model, or raise if a vocabulary is missing."""
    for layer, paths in targets.layers(model, leaves=CLASSES):
        if isinstance(layer, CLASSES):
            learned = [vocabularies[path] for path in paths if path in vocabularies]
            with located(layer=paths[0]):
                _fill(layer, learned[0] if learned else Vocabulary())


def empty_lookups(model: keras.Model) -> list[str]:
    """Return the names of the lookup layers that have no vocabulary."""
    layers = keras_internals.sublayers(model)
    return [x.name for x in layers if isinstance(x, CLASSES) and _is_empty(x)]


def _kind(layer: keras.Layer) -> str:
    return str(next(cls for cls in CLASSES if isinstance(layer, cls)).__name__)


def _is_empty(layer: keras.Layer) -> bool:
    special = special_tokens(_kind(layer), layer.get_config())
    return bool(layer.vocabulary_size() <= len(special))


def _fill(layer: keras.Layer, learned: Vocabulary) -> None:
    if not _is_empty(layer):
        return
    kind, config = _kind(layer), layer.get_config()
    try:
        filled = preprocessing.lookup_arguments(kind, config, learned, safe_mode=True)
    except preprocessing.NothingLearnedError as error:
        reason = f"this {kind} would be empty: {error}."
        raise LegacyModelError(reason, code="KP305") from None
    except LegacyModelError as error:
        error.hint = AS_IN_FILE
        raise
    current, wanted = (item.get("num_oov_indices") for item in (config, filled))
    if current != wanted:
        raise LegacyModelError(
            f"this {kind} has num_oov_indices={current}, the file's has {wanted}.",
            AS_IN_FILE,
        )
    layer.set_vocabulary(filled["vocabulary"], filled["idf_weights"])
