"""Which models the paths on a command line mean, and where each is written."""

import os
import pathlib

import pytest

import keras_policies
from keras_policies import LegacyModelError
from keras_policies.cli import folders


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    for name in (
        "zoo/a.h5",
        "zoo/b.keras",
        "zoo/notes.txt",
        "zoo/saved/saved_model.pb",
        "zoo/saved/variables/inner.h5",
        "zoo/deep/c.hdf5",
        "zoo/deep/er/a.h5",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("paths", "recursive", "expected"),
    [
        pytest.param(
            ["zoo"], False, ["zoo/a.h5", "zoo/b.keras", "zoo/saved"], id="folder"
        ),
        pytest.param(
            ["zoo"],
            True,
            [
                *("zoo/a.h5", "zoo/b.keras", "zoo/saved"),
                *("zoo/deep/c.hdf5", "zoo/deep/er/a.h5"),
            ],
            id="recursive",
        ),
        pytest.param(["zoo/saved"], True, ["zoo/saved"], id="a-saved-model"),
        pytest.param(
            ["zoo/*.h5", "zoo/deep/**/*.h5"],
            False,
            ["zoo/a.h5", "zoo/deep/er/a.h5"],
            id="globs",
        ),
        pytest.param(
            ["zoo/[ds]*"], False, ["zoo/deep/c.hdf5", "zoo/saved"], id="folders-by-glob"
        ),
        pytest.param(["zoo/a.h5", "zoo/a*"], False, ["zoo/a.h5"], id="each-once"),
        pytest.param(["none.h5", "x*"], False, ["none.h5", "x*"], id="not-there"),
        pytest.param(
            ["zoo/saved/variables/.."], False, ["zoo/saved/variables/.."], id="dots"
        ),
    ],
)
def test_paths_folders_and_globs_mean_models(zoo, paths, recursive, expected):
    found = folders.models(paths, recursive)
    assert [path.replace(os.sep, "/") for path in found] == expected


@pytest.mark.parametrize(
    "other", ["./zoo/a.h5", "zoo/deep/../a.h5", "zoo//a.h5", "zoo/*.h5", None]
)
def test_a_model_in_two_spellings_is_one(zoo, other):
    absolute = str(pathlib.Path("zoo/a.h5").absolute())
    assert folders.models(["zoo/a.h5", other or absolute], False) == ["zoo/a.h5"]


def test_where_case_does_not_matter_two_spellings_are_one(zoo):
    pathlib.Path("zoo/A.H5").exists() or os.link("zoo/a.h5", "zoo/A.H5")
    assert folders.models(["zoo/a.h5", "zoo/A.H5"], False) == ["zoo/a.h5"]


@pytest.mark.posix("Windows does not let everybody create links")
def test_two_links_to_one_file_are_two_models(zoo):
    pathlib.Path("zoo/x.h5").symlink_to("a.h5")
    assert folders.models(["zoo/a.h5", "zoo/x.h5"], False) == ["zoo/a.h5", "zoo/x.h5"]


def test_endings_are_found_in_capitals(zoo):
    pathlib.Path("zoo/deep/OLD.H5").touch()
    found = folders.models(["zoo/deep"], False)
    names = {pathlib.Path("zoo/deep", name) for name in ("OLD.H5", "c.hdf5")}
    assert {*map(pathlib.Path, found)} == names  # Windows sorts without case
    (new,) = folders.destinations("zoo", ["zoo/deep/OLD.H5"], pathlib.Path("new"))
    assert new.as_posix() == "new/deep/OLD.keras"


def test_models_on_two_drives_have_no_common_folder(zoo, monkeypatch):
    def refused(paths):
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(os.path, "commonpath", refused)
    problem = "models on several drives .* Run one command for each drive"
    with pytest.raises(LegacyModelError, match=problem):
        folders.common_folder(["zoo/a.h5", "zoo/deep/c.hdf5"])


def test_a_base_on_another_drive_is_refused(zoo, monkeypatch):
    def refused(path, start):
        raise ValueError("path is on mount 'C:', start on mount 'D:'")

    monkeypatch.setattr(os.path, "relpath", refused)
    with pytest.raises(LegacyModelError, match="it is not below 'D:/'"):
        folders.destinations("D:/", ["zoo/a.h5"], pathlib.Path("new"))


def test_a_folder_without_models_is_itself_asked(zoo):
    pathlib.Path("empty").mkdir()
    assert folders.models(["empty"], True) == ["empty"]


@pytest.mark.parametrize(
    ("paths", "sources", "expected"),
    [
        pytest.param(
            ["zoo"],
            ["zoo/b.keras", "zoo/deep/er/a.h5", "zoo/saved"],
            ["new/b.keras", "new/deep/er/a.keras", "new/saved.keras"],
            id="below-the-folder",
        ),
        pytest.param(["zoo/a.h5"], ["zoo/a.h5"], ["new/a.keras"], id="one-file"),
        pytest.param(
            ["zoo/deep/er/a.h5", "zoo/a.h5"],
            ["zoo/deep/er/a.h5", "zoo/a.h5"],
            ["new/deep/er/a.keras", "new/a.keras"],
            id="below-what-is-common",
        ),
        pytest.param(
            ["zoo/*/*"],
            ["zoo/deep/c.hdf5"],
            ["new/deep/c.keras"],
            id="below-the-fixed-part-of-a-glob",
        ),
        pytest.param(["zoo"], ["zoo/v1.2"], ["new/v1.2.keras"], id="dot-in-a-name"),
    ],
)
def test_a_model_is_written_where_it_lies_in_its_folder(zoo, paths, sources, expected):
    base = folders.common_folder(paths)
    found = folders.destinations(base, sources, pathlib.Path("new"))
    assert [path.as_posix() for path in found] == expected


def test_models_beside_each_other_keep_their_endings_whatever_is_converted(zoo):
    for twin in "zoo/a.keras", "zoo/deep/c/saved_model.pb":
        path = pathlib.Path(twin)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    sources = ["zoo/a.h5", "zoo/a.keras", "zoo/deep/c", "zoo/deep/c.hdf5"]
    expected = ["a.h5.keras", "a.keras.keras", "deep/c.keras", "deep/c.hdf5.keras"]
    for source, name in zip(sources, expected, strict=True):
        (found,) = folders.destinations("zoo", [source], pathlib.Path("new"))
        assert found.as_posix() == f"new/{name}"


def test_a_model_outside_of_the_base_is_refused(zoo):
    with pytest.raises(LegacyModelError, match="zoo/a.h5: it is not below 'zoo/"):
        folders.destinations("zoo/deep", ["zoo/a.h5"], pathlib.Path("new"))


def test_models_only_in_folders_below_ask_for_recursive(zoo):
    pathlib.Path("zoo/empty/er").mkdir(parents=True)
    pathlib.Path("zoo/empty/er/x.h5").touch()
    pathlib.Path("zoo/empty/er/y.h5").touch()
    problem = "zoo/empty: no model directly in it; 2 below. Add --recursive."
    with pytest.raises(LegacyModelError, match=problem):
        folders.models(["zoo/empty"], False)


def test_a_folder_that_may_not_be_read_is_named(unprivileged):
    (unprivileged / "a.h5").touch()
    locked = unprivileged / "locked"
    locked.mkdir(mode=0)
    found = folders.models([str(unprivileged)], True)
    assert found == [str(unprivileged / "a.h5"), str(locked)]
    assert folders.models([str(locked)], True) == [str(locked)]
    with pytest.raises(LegacyModelError, match="locked: cannot be read: .*Permission"):
        keras_policies.inspect_model(locked)
