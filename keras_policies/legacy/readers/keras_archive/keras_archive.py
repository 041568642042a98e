"""Reads the `.keras` files of Keras 2.11 to 2.15.

A zip of `metadata.json`, `config.json` and `model.weights.h5`, with the vocabularies of
lookup layers in `assets/`. Source: keras/saving/saving_lib.py of 2.15.
"""

import contextlib
import pathlib
import tempfile
import zipfile
from collections.abc import Iterator
from typing import IO

from keras_policies.legacy.base import errors
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Config, Inputs, LegacyModel
from keras_policies.legacy.guards import (
    budget,
    guarded_hdf5,
    limits,
    packed,
    paths,
    texts,
)
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers import hdf5_weights, vocabularies
from keras_policies.legacy.readers.keras_archive import optimizer, weights

ASSETS, VOCABULARY = "assets/", "/vocabulary.txt"
COMPILED = "loss", "loss_weights", "metrics", "weighted_metrics"
METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
COPY_BYTES = 1024 * 1024
SIZES = "file_size", "compress_size"  # of a member


def _open_archive(path: pathlib.Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        reason = (
            f"not a readable .zip or .keras file: {error}. It is truncated or corrupt."
        )
        raise LegacyModelError(reason) from error


def _info(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(name)
    except KeyError:
        reason = f"a zip file, but no Keras model: {name} is missing."
        raise LegacyModelError(reason) from None


def _read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return a member that must have at most `limit` bytes."""
    info = _info(archive, name)
    if info.file_size > limit:
        reason = f"{name}: {info.file_size} bytes, expected at most {limit}."
        raise LegacyModelError(reason)
    with errors.corrupt(str(archive.filename), name), archive.open(info) as member:
        return member.read(limit)


def _unpack_weights(archive: zipfile.ZipFile, unpacked: IO[bytes]) -> None:
    """Copy the HDF5 file of the weights into an open file."""
    info = _info(archive, WEIGHTS)
    left, small = info.file_size, limits.SMALL_FILE_BYTES
    packed.check_expansion(WEIGHTS, left, info.compress_size, small)
    with errors.corrupt(str(archive.filename), WEIGHTS), archive.open(info) as member:
        while left and (chunk := member.read(min(left, COPY_BYTES))):
            unpacked.write(chunk)
            left -= len(chunk)
    unpacked.seek(0)


def _tokens(archive: zipfile.ZipFile, config: Config) -> dict[str, dict[int, bytes]]:
    """Return `{layer path: {index: token}}` from the vocabularies in the archive."""
    found = {}
    every = (info for info in archive.infolist() if info.filename.startswith(ASSETS))
    files = [info for info in every if info.filename.endswith(VOCABULARY)]
    claimed, held = (sum(getattr(info, of) for info in files) for of in SIZES)
    held = min(held, paths.size(str(archive.filename)))  # members may share bytes
    packed.check_expansion(ASSETS, claimed, held, limits.SMALL_TEXT_BYTES)
    left = Limit(limits.VOCABULARY_TOKENS, "tokens in its vocabularies")
    path_of = weights.layer_paths(config)
    for info in files:
        stored = info.filename.removeprefix(ASSETS).removesuffix(VOCABULARY)
        text = _read_member(archive, info.filename, limits.VOCABULARY_BYTES)
        lines = texts.vocabulary(text.replace(b"\r\n", b"\n"))
        left.spend(len(lines))
        found[path_of(budget.layer_path("", stored))] = dict(enumerate(lines))
    return found


def _training_config(compiled: object) -> Config | None:
    """Return a `compile_config` in the form of the older `training_config`, or None."""
    if not isinstance(compiled, dict) or not compiled.get("optimizer"):
        return None
    found = compiled["optimizer"]
    if isinstance(found, str):
        found = {"class_name": optimizer.class_name(found), "config": {}}
    if isinstance(found, list):  # one for each part of a WideDeepModel
        return None
    others = {name: compiled.get(name) for name in COMPILED}
    return {"optimizer_config": found, **others}


def _inputs(config: Config) -> Inputs:
    """Return `{name: (shape, dtype)}` that a subclassed model was built for, or {}."""
    build_config = config.get("build_config")
    shape = build_config.get("input_shape") if isinstance(build_config, dict) else None
    if not isinstance(shape, list | tuple):
        return {}
    is_one = all(size is None or isinstance(size, int) for size in shape)
    return {"inputs": (tuple(shape), "float32")} if is_one else {}


@contextlib.contextmanager
def read(path: pathlib.Path) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in the Keras-2 `.keras` file at `path`.

    Its weights are unpacked into a nameless file for as long as this context is open.
    """
    with tempfile.TemporaryFile() as unpacked:
        with _open_archive(path) as archive:
            metadata = _read_member(archive, METADATA, limits.METADATA_BYTES)
            decoded = texts.decode(metadata, METADATA)
            version = str(decoded.get("keras_version", "unknown"))
            errors.check_version(version)
            text = _read_member(archive, CONFIG, limits.JSON_BYTES)
            _unpack_weights(archive, unpacked)
            config = texts.decode(text, CONFIG)
            tokens = _tokens(archive, config)
        with guarded_hdf5.open_file(unpacked) as file:
            training = _training_config(config.get("compile_config"))
            written = training["optimizer_config"] if training else {}
            is_wrapped = optimizer.has_inner(file) and optimizer.inner(written) is None
            every = weights.by_layer(file, config)
            state = optimizer.state(file, written)
            slots = (slot.value for slot in state.slots)
            hdf5_weights.check_total(path, every, slots)
            found, kept = vocabularies.take(config, every, tokens)
            yield LegacyModel(
                path=str(path),
                format="Keras 2 .keras",
                written_by=f"Keras {version}",
                config=config,
                records_policies=True,
                weights=kept,
                inputs=_inputs(config),
                training_config=training,
                is_optimizer_wrapped=is_wrapped,
                optimizer=state,
                vocabularies=found,
            )
