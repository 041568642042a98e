"""Which models the paths on a command line mean, and where each is written."""

import pathlib

import pytest

from keras_policies.legacy import folders


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
    assert folders.models(paths, recursive) == expected


def test_a_folder_without_models_is_itself_asked(zoo):
    pathlib.Path("empty").mkdir()
    assert folders.models(["empty"], True) == ["empty"]


@pytest.mark.parametrize(
    ("paths", "sources", "expected"),
    [
        pytest.param(
            ["zoo"],
            ["zoo/a.h5", "zoo/deep/er/a.h5", "zoo/saved"],
            ["new/a.keras", "new/deep/er/a.keras", "new/saved.keras"],
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
        pytest.param(
            ["zoo"],
            ["zoo/a.h5", "zoo/a.keras", "zoo/b.keras"],
            ["new/a.h5.keras", "new/a.keras.keras", "new/b.keras"],
            id="endings-tell-them-apart",
        ),
        pytest.param(["zoo"], ["zoo/v1.2"], ["new/v1.2.keras"], id="dot-in-a-name"),
    ],
)
def test_a_model_is_written_where_it_lies_in_its_folder(zoo, paths, sources, expected):
    found = folders.destinations(paths, sources, pathlib.Path("new"))
    assert [path.as_posix() for path in found] == expected
