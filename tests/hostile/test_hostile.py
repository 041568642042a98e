"""Files from strangers end in the model that was saved, or in an error of ours."""

import contextlib
import importlib.util
import struct

import hostile
import hostile_exploits
import hostile_sizes
import hostile_worker
import keras
import numpy as np
import pytest

from keras_policies import LegacyModelError, inspect_model, load_model, load_weights
from keras_policies._common import warnings as warn
from keras_policies.cli import exit_codes
from keras_policies.cli import main as cli
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import budget, hdf5_bytes, limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.ops import array_values
from keras_policies.legacy.readers.slots import SlotNames
from keras_policies.legacy.values import computed

SAMPLE = 6  # seeds of each mutation; hostile.py tries many
EVERY = [
    (kind, name)
    for kind in hostile_worker.FORMATS
    for name in hostile_worker.mutations(kind)
]


@pytest.fixture(scope="module")
def worker():
    started = hostile.Worker("numpy")  # it starts soonest; readers know no backend
    yield started
    started.close()


@pytest.mark.posix("the worker limits its memory")
@pytest.mark.slow("six seeds of each mutation, and TensorFlow", one_of=3)
@pytest.mark.once("a process on numpy")
@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="some of the originals are lookups, which Keras makes with TensorFlow",
)
@pytest.mark.parametrize(("kind", "mutation"), EVERY, ids=map("-".join, EVERY))
def test_a_mutated_file_opens_as_it_was_or_is_refused(worker, kind, mutation):
    for seed in range(SAMPLE):
        found = worker.open(kind, mutation, seed)
        assert hostile.problem(kind, mutation, found) is None, (seed, found)


def test_the_worker_sees_what_is_opened_written_imported_and_left_unequal():
    fine = {"outcome": "refused", "seen": [], "loops": 3, "bytes": 1000}
    assert hostile.problem("keras", "bits", fine) is None
    for wrong, said in (
        ({"seen": ["open /etc/passwd"]}, "seen: ['open /etc/passwd']"),
        ({"outcome": "another error", "detail": "KeyError"}, "another error: KeyError"),
        ({"outcome": "hang"}, "hang: None"),
        ({"outcome": "different", "detail": "0f"}, "another model than the original"),
        ({"loops": 401}, "401 loops, 0 MiB"),
        ({"bytes": 2**31}, "3 loops, 2048 MiB"),
    ):
        assert said in hostile.problem("keras", "bits", {**fine, **wrong})
    changed = {**fine, "outcome": "different"}
    assert hostile.problem("H5", "bits", changed) is None  # it has no checksums


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """A folder with the canary that inputs beside it must not open, and its watch."""
    for name in "layers", "models":  # Keras 3.8 imports them when it reads a config
        importlib.import_module(f"keras.{name}")
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "canary").write_bytes(
        hostile_worker.original(hostile_exploits.H5)["model.h5"]
    )
    return folder, hostile_worker.Watch(folder / "canary")


def test_the_watch_sees_the_canary_and_a_module(beside, tmp_path):
    folder, watch = beside
    watch.start(tmp_path)
    (folder / "canary").read_bytes()
    __import__("this")
    with open(tmp_path / "new", "w"):
        pass
    found = watch.stop()
    assert found[-1] == "the canary was opened"
    assert f"open {folder / 'canary'}" in found
    assert "import this" in found
    assert any(what.startswith(f"write {tmp_path / 'new'}") for what in found)


def small():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(hidden))


@pytest.mark.once("refused before a model is built")
@pytest.mark.parametrize("name", hostile_exploits.EXPLOITS)
def test_what_got_past_the_readers_once_is_refused(beside, name):
    kind, make, match = hostile_exploits.EXPLOITS[name]
    (folder, watch), kept = beside, hostile_exploits.FOLDER / name
    path = folder / name
    hostile_worker.write(
        hostile_worker.original(kept) if kept.is_dir() else make(), path
    )
    model = small() if kind == "checkpoint" else None
    if kind in ("H5", "keras"):
        (path,) = path.iterdir()
    watch.start(path)
    try:
        with pytest.raises(LegacyModelError, match=match):
            load_weights(model, path / "weights") if model else load_model(path)
    finally:
        seen = watch.stop()
    assert seen == []


def test_a_name_gives_a_terminal_no_orders(tmp_path, capsys):
    name = "a\x1b[2J\x9b\u202eb"
    layers = hostile_sizes.INPUT, {"class_name": "Own", "config": {"name": name}}
    hostile_worker.write(hostile_sizes.h5([*layers]), tmp_path)
    path = str(tmp_path / "model.h5")
    assert cli.main(["inspect", path]) == exit_codes.PARTLY
    assert cli.main(["inspect", str(tmp_path)]) == exit_codes.PARTLY
    with pytest.raises(LegacyModelError, match="Own") as raised:
        load_model(path)
    error = LegacyModelError("x", layer=name)
    with pytest.warns(UserWarning, match="a.x1b.2J.x9b.u202eb") as warned:
        warn.warn(name)
    printed = "".join(capsys.readouterr())
    assert r"a\x1b[2J\x9b\u202eb" in printed
    shown = printed, str(raised.value), str(error), str(warned[0].message)
    assert not any(char in text for text in shown for char in "\x1b\x9b\u202e")
    assert inspect_model(path).layers[-1].path == name  # the value is as it is


def test_each_kept_file_is_of_an_exploit():
    assert set(hostile_exploits.kept()) <= set(hostile_exploits.EXPLOITS)
    assert len(hostile_exploits.kept()) >= 10


def test_a_million_objects_open(tmp_path):
    files = hostile_worker.original(hostile_exploits.SAVED_MODEL)
    hostile_worker.write(files, tmp_path / "few")
    hostile_worker.write(hostile_exploits.a_million_objects(), tmp_path / "many")
    few, many = (inspect_model(tmp_path / name) for name in ("few", "many"))
    assert many.layers == few.layers


def test_a_link_that_stays_in_the_folder_is_followed(tmp_path):
    files = hostile_worker.original(hostile_exploits.SAVED_MODEL)
    hostile_worker.write(files, tmp_path / "model")
    path = tmp_path / "model" / "saved_model.pb"
    path.rename(tmp_path / "model" / "other.pb")
    path.symlink_to("other.pb")
    (tmp_path / "link").symlink_to("model")  # named by the user
    assert len(load_model(tmp_path / "link").get_weights()) > 0


def test_a_name_of_a_million_parts_is_no_slot_and_takes_no_time():
    def weight(name):
        return LegacyWeight("", name, (1,), np.dtype("float32"), lambda: None)

    slots = SlotNames([weight("dense/kernel")])
    assert slots.slot(weight("a/" * 10**6 + "m")) is None
    assert slots.slot(weight("a/" * 10**6 + "dense/kernel/m")).name == "m"


@pytest.mark.parametrize(
    "make",
    [
        lambda: array_values.fill([10**6, 10**6], 0.5),
        lambda: array_values.arange(0, 10**12),
        lambda: array_values.eye(10**6),
        lambda: array_values.linspace(0, 1, 10**12),
        lambda: computed.tile(np.zeros(10), [10**12]),
    ],
    ids=["fill", "range", "eye", "linspace", "tile"],
)
def test_a_constant_that_no_weights_explain_is_refused(make):
    with (
        budget.of(1000),
        pytest.raises(LegacyModelError, match="an array of [0-9.]+ bytes, more than"),
    ):
        make()


def test_what_a_model_may_take_is_counted_together():
    with budget.of(0):
        budget.spend(200 * 2**20, 1)
        with pytest.raises(LegacyModelError, match="an array of 104857600 bytes"):
            budget.spend(100 * 2**20, 1)
    budget.spend(10**12)  # outside, nothing is counted


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf"), -float("inf")])
def test_a_count_that_is_negative_or_not_finite_is_refused_and_frees_nothing(count):
    with budget.of(0):
        budget.spend(200 * 2**20, 1)
        with pytest.raises(LimitError, match=f"an array of {count} bytes"):
            budget.spend(count, 1)
        with pytest.raises(LimitError, match="an array of 104857600 bytes, more than"):
            budget.spend(100 * 2**20, 1)


@pytest.mark.parametrize("is_limited", [True, False])
@pytest.mark.parametrize("cost", [-1, float("nan"), -float("inf")])
def test_work_that_is_negative_or_no_number_is_refused_and_frees_none(cost, is_limited):
    with budget.anew(0) if is_limited else contextlib.nullcontext():
        with pytest.raises(LimitError, match="asks for more work than the size"):
            budget.work(cost)
        if is_limited:
            budget.work(limits.SMALL_WORK)
            with pytest.raises(LimitError, match="asks for more work than the size"):
                budget.work(1)


def test_an_array_whose_computing_costs_nan_is_refused():
    with budget.of(0), pytest.raises(LimitError, match="asks for more work than"):
        budget.spend(1, computed=float("nan"))


def test_a_size_of_ten_thousand_digits_is_refused_without_writing_it_out():
    with budget.of(0), pytest.raises(LimitError, match="over 18446744073709551616"):
        budget.spend(10**10_000)


def test_a_limit_counts_no_negative_number_and_stays_exceeded():
    limit = Limit(10, "nodes")
    limit.spend(8)
    for count in -5, float("nan"), 3, 1:
        with pytest.raises(LimitError, match="more than 10 nodes"):
            limit.spend(count)


def test_an_attribute_that_ends_with_its_file_is_left_to_hdf5():
    sizes = struct.pack("<HHH", len(b"keras_version\0"), 20, 0)
    text = struct.pack("<BBHIIIHH", 0x19, 1, 0, 16, 0x10, 1, 0, 8)
    data = bytes([1, 0]) + sizes + b"keras_version\0\0\0" + text + bytes(4)
    hdf5_bytes.check_texts(data, {})
