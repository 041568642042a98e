"""Opens files of Keras 3, whatever their names end in."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import keras

from keras_policies._common.types import Config, CustomObjects, Path
from keras_policies.legacy.plan.training import BY_NAME
from keras_policies.legacy.readers import readers, sources
from keras_policies.loss_scaling.optimizer import instead_of_stock


def open_with_keras(
    path: Path, custom_objects: CustomObjects, *, compile: bool, safe_mode: bool
) -> keras.Model:
    """Open a model of Keras 3, whatever the name of its file ends in."""
    with named_for_keras(path) as named:
        names = {} if named.suffix == ".keras" else _short_names()
        objects = {**names, **(custom_objects or {})}
        with instead_of_stock:
            return keras.models.load_model(named, objects, compile, safe_mode)


def _short_names() -> Config:
    """Return `{"mse": function}` for names that Keras 3 writes, but cannot read."""
    known = {name: keras.losses.get(name) for name in BY_NAME["losses"]}
    registered = keras.saving.get_custom_objects()
    return {name: known[name] for name in known if name not in registered}


@contextlib.contextmanager
def named_for_keras(path: Path) -> Iterator[pathlib.Path]:
    """Yield the path, or a link to it with the ending that Keras 3 requires."""
    with sources.local(path) as here, tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(here)
        is_keras = path.is_dir() or readers.is_zip(path)
        endings = (".keras",) if is_keras else (".h5", ".hdf5")
        if path.is_dir() or path.suffix in endings:
            yield path
            return
        link = pathlib.Path(folder, f"model{endings[0]}")
        os.symlink(path.resolve(), link)
        yield link
