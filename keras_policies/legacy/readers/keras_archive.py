"""Reads the `.keras` files of Keras 2.11 to 2.15.

A zip of `metadata.json`, `config.json` and `model.weights.h5`. The weights go by
attributes and positions, `layers/dense_1/vars/0`: no variable has a name, and a
layer goes by its class and a counter. Source: keras/saving/saving_lib.py of 2.15.
"""

import collections
import contextlib
import dataclasses
import lzma
import struct
import tempfile
import zipfile
import zlib

import h5py

from keras_policies.legacy.base import configs, lookups
from keras_policies.legacy.base.errors import LegacyModelError, check_version
from keras_policies.legacy.base.model import (
    LegacyModel,
    LegacyOptimizerState,
    LegacySlot,
)
from keras_policies.legacy.base.names import numbered
from keras_policies.legacy.guards import guarded_hdf5, json_text
from keras_policies.legacy.readers import hdf5, vocabularies

SIGNATURE = b"PK\x03\x04"
METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
LAYER_GROUPS = "layers", "_layer_checkpoint_dependencies"
OPTIMIZER_GROUP, INNER_OPTIMIZER_GROUP = "optimizer", "optimizer/inner_optimizer"
ASSETS, VOCABULARY = "assets/", "/vocabulary.txt"
MAX_VOCABULARY_BYTES = 128 * 1024 * 1024
MAX_METADATA_BYTES = 64 * 1024
# Keras packs nothing, and weights that someone packed shrink to a half.
MAX_EXPANSION = 20
SMALL_BYTES = 16 * 1024 * 1024  # what may be packed better
COPY_BYTES = 1024 * 1024
# What reading a member raises: the modules of each packing have errors of their own.
BROKEN = (
    EOFError,
    OSError,
    RuntimeError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

# The slots of an optimizer in the order in which Keras 2.11 to 2.15 creates them:
# one group after the other, each variable by variable. A group with a setting is
# there only if the setting is.
SLOT_GROUPS = {
    "SGD": [(("m",), None)],
    "RMSprop": [
        (("velocity",), None),
        (("momentum",), "momentum"),
        (("average_gradient",), "centered"),
    ],
    "Adam": [(("m", "v"), None), (("vhat",), "amsgrad")],
    "AdamW": [(("m", "v"), None), (("vhat",), "amsgrad")],
    "Adagrad": [(("accumulator",), None)],
    "Adadelta": [(("accumulated_grad", "accumulated_delta_var"), None)],
    "Adamax": [(("m", "u"), None)],
    "Nadam": [(("m", "v"), None)],
    "Ftrl": [(("accumulator", "linear"), None)],
    "Lion": [(("m",), None)],
}


def _open_archive(path):
    """Return the open `zipfile.ZipFile` at `path`."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise LegacyModelError(
            f"{path}: not a readable .keras file: {error}. It is truncated or corrupt."
        ) from error


def _member(archive, name, limit):
    """Return the bytes of a member of at most `limit` bytes."""
    try:
        info = archive.getinfo(name)
        if info.file_size > limit:
            raise LegacyModelError(
                f"{archive.filename}: {name}: {info.file_size} bytes are more than "
                f"{limit}."
            )
        with archive.open(name) as member:
            return member.read(limit)
    except KeyError:
        raise LegacyModelError(
            f"{archive.filename}: a zip file, but no Keras model: {name} is missing."
        ) from None
    except BROKEN as error:
        raise LegacyModelError(f"{archive.filename}: {name}: {error}.") from error


def _keras_version(archive):
    """Return the version of Keras that wrote the archive, such as `"2.15.0"`."""
    text = _member(archive, METADATA, MAX_METADATA_BYTES)
    found = json_text.decode(text, f"{archive.filename}: {METADATA}")
    return str(found.get("keras_version", "unknown"))


def _unpack_weights(archive, unpacked):
    """Copy the HDF5 file of the weights into an open file."""
    where = f"{archive.filename}: {WEIGHTS}"
    try:
        info = archive.getinfo(WEIGHTS)
        if info.file_size > MAX_EXPANSION * info.compress_size + SMALL_BYTES:
            raise LegacyModelError(
                f"{where}: {info.compress_size} bytes claim to unpack to "
                f"{info.file_size}: at most {MAX_EXPANSION} times as many are expected."
            )
        left = info.file_size
        with archive.open(WEIGHTS) as member:
            while left and (chunk := member.read(min(left, COPY_BYTES))):
                unpacked.write(chunk)
                left -= len(chunk)
    except KeyError:
        raise LegacyModelError(f"{where}: missing.") from None
    except BROKEN as error:
        raise LegacyModelError(f"{where}: {error}.") from error
    unpacked.seek(0)


def _own_and_inner(group, prefix, where, seen=None):
    """Yield the `LegacyWeight`s of a layer's group, at any depth.

    Args:
        group: `h5py.Group`.
        prefix: str, the path of the group.
        where: str, the file, for errors.
        seen: set of groups already met, or None. One in two places could be in many.
    """
    seen = set() if seen is None else seen
    for name in group:
        inner = guarded_hdf5.member(group, name, where)
        if not isinstance(inner, h5py.Group):
            continue
        address = h5py.h5o.get_info(inner.id).addr
        if address in seen:
            raise LegacyModelError(f"{where}: corrupt: {prefix}{name} is met twice.")
        seen.add(address)
        if name != "vars":
            yield from _own_and_inner(inner, f"{prefix}{name}/", where, seen)
            continue
        for number in sorted(inner, key=lambda item: (len(item), item)):
            yield hdf5.weight(inner, number, f"{prefix}vars/{number}", where)


def _layers(group, layers, prefix, where):
    """Yield `(layer name, LegacyWeight)`, nested models with their layers' names."""
    groups = (guarded_hdf5.member(group, name, where) for name in LAYER_GROUPS)
    group = next((found for found in groups if found is not None), None)
    stored = numbered(str(layer.get("class_name")) for layer in layers)
    for name, layer in zip(stored, layers, strict=True):
        config = layer.get("config")
        inner = None if group is None else guarded_hdf5.member(group, name, where)
        if inner is None or not isinstance(config, dict):
            continue
        own = configs.name_of(layer)
        if configs.is_graph(layer):
            below = f"{prefix}{own}/"
            found = _layers(inner, configs.inner_layers(layer), below, where)
            yield from ((own, weight) for _, weight in found)
        else:
            found = _own_and_inner(inner, f"{prefix}{own}/", where)
            yield from ((own, weight) for weight in found)


def _weights(file, config, where):
    """Return `{layer: (LegacyWeight, ...)}`; paths begin below that layer."""
    if not configs.is_graph(config):
        found = [
            weight
            for weight in _own_and_inner(file, "", where)
            if not weight.path.startswith(("optimizer/", "metrics/"))
        ]
        return {"": tuple(found)}
    grouped = collections.defaultdict(list)
    for name, weight in _layers(file, configs.inner_layers(config), "", where):
        below = weight.path.removeprefix(f"{name}/")
        grouped[name].append(dataclasses.replace(weight, path=below))
    return {name: tuple(found) for name, found in grouped.items()}


def _layer_path(stored, config):
    """Return the path of a layer as `LegacyModel` has it, from that in the archive."""
    parts, path = stored.split("/"), []
    while len(parts) > 1 and parts[0] in LAYER_GROUPS:
        layers = configs.inner_layers(config)
        names = numbered(str(layer.get("class_name")) for layer in layers)
        config = dict(zip(names, layers, strict=True)).get(parts[1])
        if config is None:
            break
        path.append(configs.name_of(config))
        parts = parts[2:]
    return "/".join([*path, *(part.lstrip("_") for part in parts)])


def _tokens(archive, config):
    """Return `{layer path: {index: token}}` from the vocabularies in the archive."""
    found = {}
    for name in archive.namelist():
        if name.startswith(ASSETS) and name.endswith(VOCABULARY):
            stored = name.removeprefix(ASSETS).removesuffix(VOCABULARY)
            where = f"{archive.filename}: {name}"
            text = _member(archive, name, MAX_VOCABULARY_BYTES)
            lines = lookups.lines(text.replace(b"\r\n", b"\n"), where)
            found[_layer_path(stored, config)] = dict(enumerate(lines))
    return found


def _slot_names(optimizer, count):
    """Return `[(slot, variable number)]` for `count` tensors of an optimizer."""
    config = optimizer.get("config") or {}
    groups = [
        names
        for names, setting in SLOT_GROUPS.get(optimizer.get("class_name"), ())
        if setting is None or config.get(setting)
    ]
    if config.get("is_legacy_optimizer") or "legacy" in str(optimizer.get("module")):
        groups = []  # their files hold no slots that can be told apart
    variables, rest = divmod(count, sum(map(len, groups)) or 1)
    if rest or not groups:
        return None
    return [
        (name, number)
        for names in groups
        for number in range(variables)
        for name in names
    ]


def _optimizer(file, optimizer, where):
    inner = (optimizer.get("config") or {}).get("inner_optimizer")
    path = OPTIMIZER_GROUP
    if isinstance(inner, dict):
        path, optimizer = INNER_OPTIMIZER_GROUP, inner
    group = guarded_hdf5.member(file, f"{path}/vars", where)
    stored = sorted(group or (), key=lambda item: (len(item), item))
    values = [hdf5.weight(group, name, f"vars/{name}", where) for name in stored]
    names = _slot_names(optimizer, len(values) - 1)
    if not values or values[0].shape or names is None:
        return LegacyOptimizerState()
    slots = [
        LegacySlot(name, number, value)
        for (name, number), value in zip(names, values[1:], strict=True)
    ]
    return LegacyOptimizerState(values[0].read().item(), tuple(slots))


def _training_config(compile_config, file, where):
    """Return a `compile_config` in the form of the older `training_config`.

    It records the optimizer as the user passed it. That `compile` wrapped it, for the
    model's policy, shows in the weights alone; an H5 file has the wrapper written out.
    """
    if not isinstance(compile_config, dict) or not compile_config.get("optimizer"):
        return None
    optimizer = compile_config["optimizer"]
    if isinstance(optimizer, str):
        optimizer = {"class_name": optimizer, "config": {}}
    is_wrapped = "inner_optimizer" in (optimizer.get("config") or {})
    has_inner = guarded_hdf5.member(file, INNER_OPTIMIZER_GROUP, where) is not None
    if has_inner and not is_wrapped:
        config = {"inner_optimizer": optimizer, "dynamic": True}
        optimizer = {"class_name": "LossScaleOptimizerV3", "config": config}
    kept = ("loss", "loss_weights", "metrics", "weighted_metrics")
    return {
        "optimizer_config": optimizer,
        **{name: compile_config.get(name) for name in kept},
    }


def _inputs(config):
    """Return `{name: (shape, dtype)}` of what a subclassed model was built for."""
    build_config = config.get("build_config")
    shape = build_config.get("input_shape") if isinstance(build_config, dict) else None
    is_one = isinstance(shape, list | tuple) and all(
        size is None or isinstance(size, int) for size in shape
    )
    return {"inputs": (tuple(shape), "float32")} if is_one else {}


@contextlib.contextmanager
def read(path):
    """Yield the `LegacyModel` in the Keras-2 `.keras` file at `path`.

    Args:
        path: str or `pathlib.Path`. Its weights are unpacked into a nameless file,
            and can be read within this context.

    Raises:
        LegacyModelError: if it is no such file, or is corrupt.
    """
    where = str(path)
    with tempfile.TemporaryFile() as unpacked:
        with _open_archive(path) as archive:
            version = _keras_version(archive)
            check_version(version)
            text = _member(archive, CONFIG, json_text.MAX_JSON_BYTES)
            _unpack_weights(archive, unpacked)
            config = json_text.decode(text, f"{where}: {CONFIG}")
            tokens = _tokens(archive, config)
        with guarded_hdf5.open_file(unpacked, where) as file:
            training = _training_config(config.get("compile_config"), file, where)
            optimizer = training["optimizer_config"] if training else {}
            weights = _weights(file, config, where)
            found, weights = vocabularies.take(config, weights, tokens)
            yield LegacyModel(
                path=where,
                format="Keras 2 .keras",
                written_by=f"Keras {version}",
                config=config,
                policy=None,
                records_policies=True,
                weights=weights,
                inputs=_inputs(config),
                training_config=training,
                optimizer=_optimizer(file, optimizer, where),
                vocabularies=found,
            )
