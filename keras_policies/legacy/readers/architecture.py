"""Reads the architecture of a model that `to_json` or `to_yaml` of tf.keras wrote.

The weights are in another file. HDF5 files hold the same dict as `model_config`.
Source: keras/engine/training.py of 2.15, `_updated_config`.
"""

import contextlib
import pathlib
from collections.abc import Iterator

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.guards import limits, texts, yaml_values
from keras_policies.legacy.readers import hdf5, keras_1, keras_archive, weights_only

PART = "the architecture"


def _decoded(path: pathlib.Path) -> tuple[str, Config]:
    """Return the format of a file, `"JSON"` or `"YAML"`, and the dict in it."""
    if path.stat().st_size > limits.JSON_BYTES:
        reason = f"{PART}: {path.stat().st_size} bytes, expected at most "
        raise LegacyModelError(f"{reason}{limits.JSON_BYTES}.", code="KP201")
    text = path.read_bytes().removeprefix(texts.BYTE_ORDER_MARK)
    is_json = text.lstrip().startswith(b"{")
    written = (texts.decode if is_json else yaml_values.decode)(text, PART)
    if "modelTopology" in written:
        reason = "a TensorFlow.js model, expected a Keras model."
        raise LegacyModelError(reason, code="KP102")
    if not isinstance(written.get("class_name"), str) or "config" not in written:
        reason = "not a Keras architecture: it has no class_name and config, but "
        raise LegacyModelError(f"{reason}{sorted(written)[:8]}.", code="KP102")
    return "JSON" if is_json else "YAML", written


@contextlib.contextmanager
def read(path: pathlib.Path, weights: FilePath | None = None) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in a file, without weights.

    Only weights of Keras 1 are read from `weights`: they need the config.
    """
    format, written = _decoded(path)
    version = written.get("keras_version")
    if (version is None and "module" in written) or str(version).startswith("3."):
        raise LegacyModelError(
            "an architecture that Keras 3 wrote.",
            "Open it with keras.models.model_from_json, and call load_weights.",
            code="KP103",
        )
    config = {key: written[key] for key in written if key != "keras_version"}
    with contextlib.ExitStack() as stack:
        by_layer = None
        if keras_1.is_written_by(version) and "module" not in written:
            if weights is not None:
                candidates = stack.enter_context(weights_only.read(weights))
                by_layer = candidates.weights[""].by_layer
            config, by_layer = keras_1.as_keras_2(config, by_layer or {})
        yield LegacyModel(
            path=str(path),
            format=format,
            written_by=f"Keras {version or 'unknown'}",
            config=keras_archive.as_in_hdf5(config),
            records_policies=not str(version).startswith(hdf5.WITHOUT_POLICIES),
            weights=by_layer or {},
            has_weights=bool(by_layer),
            training_config=None,
            optimizer=LegacyOptimizerState(),
        )
