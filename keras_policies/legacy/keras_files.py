"""Opens files of Keras 3, whatever their names end in."""

import contextlib
import os
import pathlib
import warnings
from collections.abc import Iterator

import keras

from keras_policies import keras_internals
from keras_policies._common import files
from keras_policies._common.types import Config, CustomObjects, Path
from keras_policies._common.warnings import warn
from keras_policies.keras_internals import Function
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan.training import BY_NAME
from keras_policies.legacy.readers import readers, sources
from keras_policies.loss_scaling.optimizer import instead_of_stock

# Keras says this of an optimizer that was saved before its first step: the file has its
# iterations and learning rate, which are those of its config, and nothing is lost.
SAVED_UNTRAINED = (
    r"Skipping variable loading for optimizer '[^']{0,999}', because it has \d+ "
    "variables whereas the saved optimizer has 2 variables"
)


def open_with_keras(
    path: Path, custom_objects: CustomObjects, *, compile: bool, safe_mode: bool
) -> keras.Model:
    """Open a model of Keras 3, whatever the name of its file ends in."""
    with named_for_keras(path) as named:
        names = {} if named.suffix == ".keras" else _short_names()
        objects = {**names, **(custom_objects or {})}
        with instead_of_stock, warnings.catch_warnings():
            warnings.filterwarnings("ignore", SAVED_UNTRAINED)
            if not sources.is_orbax(named):
                return keras.models.load_model(named, objects, compile, safe_mode)
            with keras_internals.patched(keras.Model, "set_state_tree", _restore):
                return keras.models.load_model(named, objects, compile, safe_mode)


def _restore(stock: Function, model: keras.Model, state: Config) -> None:
    """Restore the state in an Orbax folder, in which Keras looks variables up by paths.

    It ignores all others, such as those of a trained Sequential, whose paths in the
    folder begin with the name of the model.
    """
    state = {group: _without(model.name, values) for group, values in state.items()}
    stock(model, state)
    weights = _not_restored(state, "trainable_variables", model.trainable_variables)
    if weights:
        raise LegacyModelError(
            f"Keras restores {len(weights)} weights of this Orbax folder, such as "
            f"{weights[0]!r}, to no variable: the model has others.",
            "Create the model with your code, and restore its state with Orbax.",
            code="KP402",
        )
    optimizer = getattr(model, "optimizer", None)
    slots = optimizer and _not_restored(
        state, "optimizer_variables", optimizer.variables
    )
    if slots:
        warn(
            f"Keras restores {len(slots)} variables of the optimizer in this Orbax "
            f"folder, such as {slots[0]!r}, to no variable: they start anew."
        )


def _not_restored(
    state: Config, group: str, variables: list[keras.Variable]
) -> list[str]:
    """Return the paths in a group of the state that no variable has."""
    leaves = keras.tree.flatten_with_path(state.get(group, {}))
    paths = {"/".join(path) for path, _ in leaves}
    return sorted(paths - {variable.path for variable in variables})


def _without(name: str, values: Config) -> Config:
    """Return a tree of variables without a level that only holds the model's name."""
    inner = values.get(name)
    return inner if values.keys() == {name} and isinstance(inner, dict) else values


def _short_names() -> Config:
    """Return `{"mse": function}` for names that Keras 3 writes, but cannot read."""
    known = {name: keras.losses.get(name) for name in BY_NAME["losses"]}
    registered = keras.saving.get_custom_objects()
    return {name: known[name] for name in known if name not in registered}


@contextlib.contextmanager
def named_for_keras(path: Path) -> Iterator[pathlib.Path]:
    """Yield the path, or another name of it with the ending that Keras 3 requires."""
    with sources.local(path) as here, files.temporary_folder() as folder:
        path = pathlib.Path(here)
        is_keras = path.is_dir() or readers.is_zip(path)
        endings = (".keras",) if is_keras else (".h5", ".hdf5")
        if path.is_dir() or path.suffix in endings:
            yield path
            return
        named = folder / f"model{endings[0]}"
        with contextlib.suppress(OSError):
            os.symlink(path.resolve(), named)
        if not named.exists():  # Windows does not let everybody create such links
            named.unlink(missing_ok=True)
            sources.link_or_copy(path, named)
        yield named
