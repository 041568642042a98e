"""Reads the architecture of a model, as `to_json` and `to_yaml` of tf.keras wrote it.

The weights are in a file of their own. Source: keras/engine/training.py of 2.15,
`_updated_config`; the same dict that HDF5 files hold as `model_config`.
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


def _written(path: pathlib.Path) -> tuple[str, Config]:
    """Return the format and the dict in a file."""
    if path.stat().st_size > limits.JSON_BYTES:
        reason = f"{PART}: {path.stat().st_size} bytes, expected at most "
        raise LegacyModelError(f"{reason}{limits.JSON_BYTES}.", code="KP201")
    text = path.read_bytes()
    is_json = text.removeprefix(texts.BYTE_ORDER_MARK).lstrip().startswith(b"{")
    decode = texts.decode if is_json else yaml_values.decode
    written = decode(text.removeprefix(texts.BYTE_ORDER_MARK), PART)
    if "modelTopology" in written:
        raise LegacyModelError(
            "a model of TensorFlow.js, expected one of Keras.", code="KP102"
        )
    if not isinstance(written.get("class_name"), str) or "config" not in written:
        reason = "no architecture of Keras: it has no class_name and config, but "
        raise LegacyModelError(f"{reason}{sorted(written)[:8]}.", code="KP102")
    return "JSON" if is_json else "YAML", written


@contextlib.contextmanager
def read(path: pathlib.Path, weights: FilePath | None = None) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in a file, without weights.

    Weights of Keras 1, which need the config to be read, are taken from `weights`.
    """
    format, written = _written(path)
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
