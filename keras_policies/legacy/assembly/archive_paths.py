"""The paths of layers in `.keras` and `.weights.h5` files of Keras 2.11 to 2.15.

A layer is stored once, under the first attribute or list that leads to it. Members of a
list are numbered by class. Source: `_walk_trackable` and `_save_container_state` in
keras/saving/saving_lib.py of 2.12 to 2.15.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras

from keras_policies import keras_internals
from keras_policies.legacy.assembly import targets
from keras_policies.legacy.base.configs import LAYER_GROUPS, layer_name, snake_case
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.base.model import LegacyModel, Release
from keras_policies.legacy.base.weights import LegacyWeight

RULES = (2, 12), (2, 14), (2, 15)  # releases from which on another rule holds
# The state that a compiled model inside another one has beside its layers.
BESIDE = re.compile("(^|/)(optimizer|metrics)(/|$)").search
TOLD = 5  # the most layers that an error names
Fitted = tuple[targets.Pairs, list[str]]  # the strings say what is not loaded
ByLayer = Mapping[str, Sequence[LegacyWeight]]
FORMAT = "Keras 2 .keras"
REVERSED = 2, 15  # the first release that sorts attributes in reverse order
UNCOUNTED = 2, 14  # the first that does not count layers that are already stored
LAYERS, DEPENDENCIES = LAYER_GROUPS


def by_attribute(model: keras.Model, legacy: LegacyModel) -> LegacyModel:
    """Return a legacy model whose weights have the paths of `targets.layers`.

    `layers/dense_1/vars/0` becomes `head/vars/0` if that layer is the attribute `head`.
    """
    if legacy.format != FORMAT:
        return legacy
    release = legacy.release
    # The file names the layers of graphs, but not a graph inside a wrapper.
    paths = _paths(model, release, is_whole=set(legacy.weights) == {""})
    weights = {
        name: tuple(_renamed(weight, layer_name(name), paths) for weight in items)
        for name, items in legacy.weights.items()
    }
    # The reader strips underscores from the paths of vocabularies.
    plain = {re.sub("(^|/)_+", r"\1", path): paths[path] for path in paths}
    learned = {plain.get(path, path): v for path, v in legacy.vocabularies.items()}
    return dataclasses.replace(legacy, weights=weights, vocabularies=learned)


def _paths(
    model: keras.Model, release: Release, *, is_whole: bool = True
) -> dict[str, str]:
    """Return `{path in the file: path of targets.layers}` for the layers of a model."""
    places = [*targets.layers(model)]
    stored = {id(place.layer): place.stored_path for place in places}
    paths: dict[str, str] = {}
    for place in places:
        outer = place.layer
        is_own = isinstance(outer, keras.Model) and not targets.is_graph(outer)
        if is_own or (is_whole and outer is model):
            for layer, path in _walk(outer, place.stored_path, release, set()):
                if id(layer) in stored:
                    paths.setdefault(path, stored[id(layer)])
    return paths


def fitting(
    model: keras.Model,
    weights: Sequence[LegacyWeight],
    fit: Callable[[ByLayer], Fitted],
    *,
    skips: bool,
) -> Fitted:
    """Return what `fit` returns for the weights of a `.weights.h5` file.

    The file does not say which release wrote it, and so by which of the rules. The one
    is taken whose paths are those of the file; several must give the same.
    """
    groups = {f"/{weight.path}".rpartition("/vars/")[0][1:] for weight in weights}
    strange: dict[Release, list[str]] = {}
    by_release = {release: _paths(model, release) for release in RULES}
    for release, paths in by_release.items():
        strange[release] = sorted(
            each for each in groups - {*paths} if not BESIDE(each)
        )
    least = min(map(len, strange.values()))
    found, problems = dict[frozenset[tuple[int, str]], Fitted](), []
    for release, paths in by_release.items():
        if len(strange[release]) > least:
            continue
        if least and not skips:
            problems.append(_unlike(strange[release]))
            continue
        try:
            pairs, left = fit({"": [_renamed(each, "", paths) for each in weights]})
        except LimitError:
            raise
        except LegacyModelError as error:
            problems.append(error)
        else:
            key = frozenset(
                (id(variable), str(each.number)) for variable, each in pairs
            )
            found[key] = pairs, left
    if not found:
        raise problems[0]
    if len(found) > 1:
        raise LegacyModelError(
            "its layers are numbered by class, and the order of those in this model "
            "differs between releases of Keras 2.",
            "Open it with the release that wrote it, and save it with "
            "save_weights(..., save_format='h5').",
            code="KP402",
        )
    return next(iter(found.values()))


def _unlike(groups: Sequence[str]) -> LegacyModelError:
    listed = ", ".join(map(repr, groups[:TOLD]))
    return LegacyModelError(
        f"the file has weights of {len(groups)} layers that are not in the model, so "
        f"none was loaded: {listed}. It names layers by attribute, class and number.",
        "Pass skip_mismatch=True to load the others; files of Keras 3 open with "
        "model.load_weights.",
        code="KP402",
    )


def _renamed(weight: LegacyWeight, layer: str, paths: dict[str, str]) -> LegacyWeight:
    """Return a weight of a layer, `""` for the model, with its new path."""
    before, _, number = f"/{weight.path}".rpartition("/vars/")
    stored = f"{layer}{before}".lstrip("/")
    path = f"{paths.get(stored, stored)}/vars/{number}"
    return dataclasses.replace(weight, path=path.removeprefix(f"{layer}/"))


def _walk(
    layer: keras.Layer, path: str, release: Release, seen: set[int]
) -> Iterator[tuple[keras.Layer, str]]:
    """Yield layers and their paths, in the order in which Keras 2 stored them."""
    seen.add(id(layer))
    yield layer, path
    for name, children in _attributes(layer, release):
        counts: dict[str, int] = {}
        for child in children if isinstance(children, list) else [children]:
            is_stored = id(child) in seen
            below = f"{path}/{name}" if path else name
            if isinstance(children, list):
                if is_stored and release >= UNCOUNTED:
                    continue
                member = snake_case(type(child).__name__)
                number = counts[member] = counts.get(member, -1) + 1
                below = f"{below}/{member}_{number}" if number else f"{below}/{member}"
            if not is_stored:
                yield from _walk(child, below, release, seen)


def _attributes(
    layer: keras.Layer, release: Release
) -> list[tuple[str, keras.Layer | list[keras.Layer]]]:
    """Return the layers and lists of layers in a layer, in the order of Keras 2."""
    found: dict[str, keras.Layer | list[keras.Layer]] = {}
    for name, value in keras_internals.own_attributes(layer):
        if isinstance(value, keras.Layer):
            found[name] = value
        elif isinstance(value, list | tuple | dict):
            items = value.values() if isinstance(value, dict) else value
            found[name] = [item for item in items if isinstance(item, keras.Layer)]
    if isinstance(layer, keras.Model):
        found[LAYERS] = inner = [*map(targets.without_form, layer.layers)]
        if targets.is_graph(layer) and (2, 11) < release < REVERSED:
            # Those with weights are listed twice: `layer_with_weights-0`, `layer-0`.
            twice = [[item] * (1 + bool(item.weights)) for item in inner]
            found[DEPENDENCIES] = [item for items in twice for item in items]
    return sorted(found.items(), reverse=release >= REVERSED)
