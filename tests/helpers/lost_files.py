"""The models of tests/data/legacy/lost, whose classes are lost, and their results."""

import dataclasses
import functools
import json
import pathlib

import legacy_files
import numpy as np

ARCHIVES = legacy_files.FOLDER / "lost"
# Newest first: the releases that each backend opens, and those of torch alone.
RELEASES = "keras-3.15.1", "2.15.1", "2.9.3", "2.4.4", "2.0.0"


# What follows the release in the name of an archive: the table of its cases.
TABLES = "", "-idioms", "-examples", "-faults", "-loops"


def archives(release, tables=TABLES):
    """Return the paths of the archives of a release, one a table."""
    paths = (ARCHIVES / f"{release}{table}.tar.xz" for table in tables)
    return [path for path in paths if path.exists()]


def names(release, file="about.json", tables=TABLES):
    """Return the names of the cases of a release that have a file of this name."""
    found = []
    for path in archives(release, tables):
        parts = legacy_files.parts_of(path)
        found += [part[1] for part in parts if part[2:] == (file,)]
    return sorted(found)


def filled(structure, arrays):
    """Return a structure with the arrays in the places of their numbers."""
    if isinstance(structure, dict):
        return {key: filled(value, arrays) for key, value in structure.items()}
    if isinstance(structure, list):
        return [filled(value, arrays) for value in structure]
    return arrays[structure]


@dataclasses.dataclass(frozen=True)
class Lost:
    """A case; `write_lost.py` says what its files hold.

    Args:
        folder: where its archive was unpacked, with release and name.
        form: `model`, the SavedModel, or `model.h5`.
    """

    folder: pathlib.Path
    form: str = "model"

    @property
    def model(self):
        """The path of the model."""
        return self.folder / self.form

    @functools.cached_property
    def about(self):
        """The dict of `about.json`."""
        return json.loads((self.folder / "about.json").read_text("utf8"))

    @functools.cached_property
    def stored(self):
        """`{name: array}` of `expected.npz`."""
        with np.load(self.folder / "expected.npz") as file:
            return dict(file)

    def arrays(self, prefix):
        """Return the arrays `x_0`, `x_1`, … of a prefix `"x_"`."""
        return legacy_files.in_order(self.stored, prefix)

    def inputs(self, prefix="x_"):
        """Return the inputs in the structure that the model takes."""
        return filled(self.about["inputs"], self.arrays(prefix))

    def batches(self):
        """Return `[(inputs, outputs)]` of each batch that was recorded."""
        pairs = [("x_", "y_"), ("x2_", "y2_")]
        return [
            (self.inputs(x), self.arrays(y)) for x, y in pairs if f"{x}0" in self.stored
        ]


def of(folder, name):
    """Return the case `<release>/<name>`, or its H5 file, `<release>/<name>.h5`."""
    if name.endswith(".h5"):
        return Lost(folder / name.removesuffix(".h5"), "model.h5")
    return Lost(folder / name)
