"""Reads the `.keras` files of Keras 2.11 to 2.15.

These are zips of `metadata.json`, `config.json` and `model.weights.h5`, with the
vocabularies of lookup layers in `assets/`. Weights are stored by attribute and
position, `layers/dense_1/vars/0`: variables have no names, and layers are numbered by
class. Sources: keras/saving/saving_lib.py of 2.15, keras/optimizers/*.py of 2.11 to
2.15, `build`.
"""

import contextlib
import dataclasses
import pathlib
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeAlias

import h5py

from keras_policies._common import files
from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, errors
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import (
    Inputs,
    LegacyModel,
    LegacyOptimizerState,
    LegacySlot,
)
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight
from keras_policies.legacy.guards import budget, limits, packed, paths, texts
from keras_policies.legacy.guards.guarded_hdf5 import member, open_file
from keras_policies.legacy.readers import hdf5, premade, vocabularies

ASSETS, VOCABULARY = "assets/", "/vocabulary.txt"
COMPILED = "loss", "loss_weights", "metrics", "weighted_metrics"
METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
SIZES = "file_size", "compress_size"  # of a member
NOT_LAYERS = "optimizer/", "metrics/"
VARIABLES, WRAPPED = "vars", "layer"
# The weights of each layer, by its class and name.
First: TypeAlias = dict[tuple[str, str], list[LegacyWeight]]
OF_NORMALIZATION = "scale", "center"  # settings that give a weight each
GROUP, INNER_GROUP = "optimizer", "optimizer/inner_optimizer"
# Class -> its slots in the order in which Keras 2.11 to 2.15 creates them: one group
# after the other, each variable by variable. A group exists only if the setting that
# is its key is true. All create the averages first.
ALWAYS = ""
AVERAGES = {"use_ema": ("average",)}
SLOT_GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "SGD": {ALWAYS: ("m",)},
    "RMSprop": {
        **{ALWAYS: ("velocity",), "momentum": ("momentum",)},
        "centered": ("average_gradient",),
    },
    "Adam": {ALWAYS: ("m", "v"), "amsgrad": ("vhat",)},
    "AdamW": {ALWAYS: ("m", "v"), "amsgrad": ("vhat",)},
    "Adagrad": {ALWAYS: ("accumulator",)},
    "Adadelta": {ALWAYS: ("accumulated_grad", "accumulated_delta_var")},
    "Adamax": {ALWAYS: ("m", "u")},
    "Nadam": {ALWAYS: ("m", "v")},
    "Ftrl": {ALWAYS: ("accumulator", "linear")},
    "Lion": {ALWAYS: ("m",)},
}


def _open_archive(path: pathlib.Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        reason = f"not a readable .zip or .keras file: {error}. "
        raise LegacyModelError(f"{reason}It is truncated or corrupt.") from error


def _info(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(name)
    except KeyError:
        reason = f"a zip file, but not a Keras model: {name} is missing."
        raise LegacyModelError(reason) from None


def _read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return the content of a member, or raise if it is longer than `limit` bytes."""
    info = _info(archive, name)
    if info.file_size > limit:
        reason = f"{name}: {info.file_size} bytes, expected at most {limit}."
        raise LegacyModelError(reason)
    with errors.corrupt(str(archive.filename), name), archive.open(info) as member:
        return member.read(limit)


def _unpack_weights(archive: zipfile.ZipFile, unpacked: IO[bytes]) -> None:
    info = _info(archive, WEIGHTS)
    small = limits.SMALL_FILE_BYTES
    packed.check_expansion(WEIGHTS, info.file_size, info.compress_size, small)
    with errors.corrupt(str(archive.filename), WEIGHTS), archive.open(info) as member:
        files.fill(unpacked, files.chunks(member))
    unpacked.seek(0)


def as_in_hdf5(written: Config) -> Config:
    """Return the config of a model as an HDF5 file has it, with names for all layers.

    Only repeated layers keep the mark of a shared layer.
    """
    config = configs.with_new_names(configs.with_packages(written))
    _mark_repeats(config, set())
    return config


def _mark_repeats(config: Config, seen: set[object]) -> None:
    """Remove the mark of shared layers where they come first.

    Keras marks all of them, except a first one that is in an inner model. `seen` are
    the numbers and the names of layers.
    """
    wrapped = configs.settings(config).get("layer")
    inner = [wrapped] if isinstance(wrapped, dict) else configs.inner_layers(config)
    for layer in inner:
        keys: set[object] = {str(layer.get(configs.SHARED)), configs.identity(layer)}
        if not keys & seen:
            layer.pop(configs.SHARED, None)
        seen |= keys
        _mark_repeats(layer, seen)


def _tokens(archive: zipfile.ZipFile) -> dict[str, dict[int, bytes]]:
    """Return `{stored path: {index: token}}` from the vocabularies in the archive."""
    tokens = {}
    members = (info for info in archive.infolist() if info.filename.startswith(ASSETS))
    files = [info for info in members if info.filename.endswith(VOCABULARY)]
    claimed, size = (sum(getattr(info, of) for info in files) for of in SIZES)
    size = min(size, paths.size(str(archive.filename)))  # members may share bytes
    packed.check_expansion(ASSETS, claimed, size, limits.SMALL_TEXT_BYTES)
    token_limit = budget.Limit(limits.VOCABULARY_TOKENS, "tokens in its vocabularies")
    for info in files:
        stored = info.filename.removeprefix(ASSETS).removesuffix(VOCABULARY)
        text = _read_member(archive, info.filename, limits.VOCABULARY_BYTES)
        lines = texts.vocabulary(text.replace(b"\r\n", b"\n"))
        token_limit.spend(len(lines))
        tokens[budget.layer_path("", stored)] = dict(enumerate(lines))
    return tokens


def _training_config(compiled: object) -> Config | None:
    """Convert a `compile_config` to the older `training_config`, or return None."""
    if not isinstance(compiled, dict) or not compiled.get("optimizer"):
        return None
    optimizer = compiled["optimizer"]
    if isinstance(optimizer, str):
        classes = {each.lower(): each for each in SLOT_GROUPS}
        class_name = classes.get(optimizer.lower(), optimizer)
        optimizer = {"class_name": class_name, "config": {}}
    others = {name: compiled.get(name) for name in COMPILED}
    is_config = isinstance(optimizer, dict)  # others: see `_left_out`
    return {"optimizer_config": optimizer, **others} if is_config else None


def _left_out(compiled: object) -> tuple[str, ...]:
    """Return the parts of a training configuration that are not converted."""
    optimizer = compiled.get("optimizer") if isinstance(compiled, dict) else None
    if isinstance(optimizer, list):
        return ("an optimizer for each part, because Keras 3 trains with one",)
    if optimizer and not isinstance(optimizer, dict | str):
        return (f"an optimizer that cannot be read: {str(optimizer)[:80]}",)
    return ()


def _inputs(config: Config) -> Inputs:
    """Return `{name: (shape, dtype)}` of a subclassed model's one input, or {}."""
    build_config = config.get("build_config")
    shape = build_config.get("input_shape") if isinstance(build_config, dict) else None
    if not isinstance(shape, list | tuple):
        return {}
    is_one = all(size is None or isinstance(size, int) for size in shape)
    return {"inputs": (tuple(shape), "float32")} if is_one else {}


@contextlib.contextmanager
def read(path: pathlib.Path) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in the Keras-2 `.keras` file at `path`.

    While this context is open, a temporary file has its weights.
    """
    with files.temporary_file() as unpacked:
        with _open_archive(path) as archive:
            metadata = _read_member(archive, METADATA, limits.METADATA_BYTES)
            decoded = texts.decode(metadata, METADATA)
            version = str(decoded.get("keras_version", "unknown"))
            errors.check_version(version)
            text = _read_member(archive, CONFIG, limits.JSON_BYTES)
            _unpack_weights(archive, unpacked)
            config = as_in_hdf5(texts.decode(text, CONFIG))
            tokens = _tokens(archive)
        with open_file(unpacked) as file:
            training = _training_config(config.get("compile_config"))
            written = training["optimizer_config"] if training else {}
            has_inner = member(file, INNER_GROUP) is not None
            path_of = configs.layer_paths(config, lambda at: member(file, at) or ())
            tokens = {path_of(path): each for path, each in tokens.items()}
            config, weights = premade.listed(config, by_layer(file, config))
            state = state_of(stored_state(file), written)
            slots = (slot.value for slot in state.slots)
            hdf5.check_total(path, weights, slots)
            learned, model_weights = vocabularies.take(config, weights, tokens)
            yield LegacyModel(
                path=str(path),
                format="Keras 2 .keras",
                written_by=f"Keras {version}",
                config=config,
                records_policies=True,
                weights=model_weights,
                inputs=_inputs(config),
                training_config=training,
                is_optimizer_wrapped=has_inner and _inner(written) is None,
                optimizer=state,
                vocabularies=learned,
                not_converted=_left_out(config.get("compile_config")),
            )


@contextlib.contextmanager
def weights_in(path: pathlib.Path) -> Iterator[h5py.File]:
    """Yield the weights of a `.keras` file, which are those of a `.weights.h5` file."""
    with files.temporary_file() as unpacked:
        with _open_archive(path) as archive:
            metadata = _read_member(archive, METADATA, limits.METADATA_BYTES)
            version = texts.decode(metadata, METADATA).get("keras_version", "unknown")
            errors.check_version(str(version))
            _unpack_weights(archive, unpacked)
        with open_file(unpacked) as file:
            yield file


def all_weights(file: h5py.File) -> tuple[LegacyWeight, ...]:
    """Return all weights of a model, by their paths in the file."""
    found = _below(file, "", set())
    return tuple(each for each in found if not each.path.startswith(NOT_LAYERS))


def by_layer(file: h5py.File, config: Config) -> LayerWeights:
    """Return the weights of a model by layer; their paths begin below the layer."""
    if not configs.is_graph(config):
        return {"": all_weights(file)}
    own = member(file, VARIABLES) or ()
    of_model = (hdf5.weight(own, at, f"{VARIABLES}/{at}") for at in _in_order(own))
    return {**dict(_of_layers(file, config, {})), "": tuple(of_model)}


def _in_order(group: h5py.Group) -> list[str]:
    """Return the names in a group of numbered variables, `"2"` before `"10"`."""
    return sorted(group, key=lambda name: (len(name), name))


def _below(group: h5py.Group, prefix: str, seen: set[int]) -> Iterator[LegacyWeight]:
    """Yield the weights in a layer's group and in the groups below it.

    `seen` has the addresses of groups: hard links could repeat one very often.
    """
    for name in group:
        inner = member(group, name)
        if not isinstance(inner, h5py.Group):
            continue
        address = h5py.h5o.get_info(inner.id).addr
        if address in seen:
            raise LegacyModelError(f"corrupt: {prefix}{name} occurs twice.")
        seen.add(address)
        if name != VARIABLES:
            yield from _below(inner, f"{prefix}{name}/", seen)
            continue
        for number in _in_order(inner):
            weight = hdf5.weight(inner, number, f"{prefix}{VARIABLES}/{number}")
            # Layers that share a weight link to one address.
            at = h5py.h5o.get_info(inner[number].id).addr
            yield dataclasses.replace(weight, number=at)


def _of_layers(
    group: h5py.Group, model: Config, first: First
) -> Iterator[tuple[str, tuple[LegacyWeight, ...]]]:
    """Yield `(layer name, weights)` of a Sequential or Functional model."""
    groups = (member(group, name) for name in configs.LAYER_GROUPS)
    listed: Any = next((each for each in groups if each is not None), {})
    layers = configs.inner_layers(model)
    stored = configs.stored(listed, layers)
    names = {id(layer): name for name, layer in stored.items()}
    for layer in layers:
        name = names.get(id(layer))
        inner = None if name is None else member(listed, name)
        weights = _of_layer(inner, layer, first)
        if weights:
            yield configs.name_of(layer), tuple(weights)


def _of_layer(
    group: h5py.Group | None, layer: Config, first: First
) -> list[LegacyWeight]:
    """Return the weights of a layer; their paths begin below it.

    A repeated layer has the weights in `first`, by class and name.
    """
    name = configs.identity(layer)
    if configs.SHARED in layer:
        budget.work(budget.ITEM * len(first.get(name, ())))
        return first.get(name, [])
    config, parts = layer.get("config"), dict[str, Sequence[LegacyWeight]]()
    wrapped = config.get("layer") if isinstance(config, dict) else None
    if group is None or not isinstance(config, dict):
        return []
    if configs.is_graph(layer):
        parts = dict(_of_layers(group, layer, first))
    elif isinstance(wrapped, dict) and (WRAPPED in group or configs.SHARED in wrapped):
        parts = {WRAPPED: _of_layer(member(group, WRAPPED), wrapped, first)}
    else:
        passed = _models_passed(group, layer)
        parts = {at: _of_layer(member(group, at), passed[at], first) for at in passed}
    weights = [
        dataclasses.replace(weight, path=f"{part}/{weight.path}")
        for part, below in parts.items()
        for weight in below
    ]
    if not configs.is_graph(layer):
        own = _below(group, "", set())
        weights += [w for w in own if w.path.partition("/")[0] not in parts]
    if config.get("renorm"):  # the last ones are statistics that only training used
        weights = weights[: sum(config.get(key, True) for key in OF_NORMALIZATION) + 2]
    # If two layers have one name, the file does not record which of them is shared.
    first[name] = [] if name in first else weights
    return weights


def _models_passed(group: h5py.Group, layer: Config) -> dict[str, Config]:
    """Return `{attribute: config}` of the Functional models in a user-defined layer.

    The config has each under the name of the attribute, or else it must be the only
    one. A user-defined model also lists its layers, and each is stored once.
    """
    config = layer["config"]
    if any(member(group, at) is not None for at in configs.LAYER_GROUPS):
        return {}
    listing = [
        name
        for name in group
        if any(member(group, f"{name}/{at}") is not None for at in configs.LAYER_GROUPS)
    ]
    models = {at: config[at] for at in listing if configs.is_model(config.get(at))}
    every = [*filter(configs.is_model, configs.passed(layer))]
    if not models and len(listing) == len(every) == 1:
        models = {listing[0]: every[0]}
    return models


def _inner(optimizer: Config) -> Config | None:
    """Return the config of the optimizer in a LossScaleOptimizer, else None."""
    config = configs.settings(optimizer).get("inner_optimizer")
    return config if isinstance(config, dict) else None


def stored_state(file: h5py.File) -> tuple[LegacyWeight, ...]:
    """Return the variables of the optimizer, in its order, or none."""
    inner = member(file, f"{INNER_GROUP}/{VARIABLES}")
    group = member(file, f"{GROUP}/{VARIABLES}") if inner is None else inner
    stored = [] if group is None else _in_order(group)
    return tuple(hdf5.weight(group, name, f"vars/{name}") for name in stored)


def state_of(values: Sequence[LegacyWeight], optimizer: Config) -> LegacyOptimizerState:
    """Return the state of an optimizer whose config is known."""
    names = _slots(_inner(optimizer) or optimizer, len(values) - 1)
    if not values or values[0].shape or names is None:
        return LegacyOptimizerState(is_unread=len(values) > 1)
    pairs = zip(names, values[1:], strict=True)
    slots = tuple(LegacySlot(*place, value) for place, value in pairs)
    return LegacyOptimizerState(values[0].read().item(), slots)


def _slots(optimizer: Config, count: int) -> list[tuple[str, int]] | None:
    """Return `[(slot, variable number)]` for `count` tensors, or None if unknown."""
    config = configs.settings(optimizer)
    if config.get("is_legacy_optimizer") or "legacy" in str(optimizer.get("module")):
        return None  # nothing in their files identifies the slots
    listed = SLOT_GROUPS.get(str(optimizer.get("class_name")), {})
    all_groups = {**AVERAGES, **listed}.items()
    groups = [names for key, names in all_groups if key == ALWAYS or config.get(key)]
    variables, rest = divmod(count, sum(map(len, groups)) or 1)
    if rest or not listed:
        return None
    numbers = range(variables)
    return [(name, number) for names in groups for number in numbers for name in names]
