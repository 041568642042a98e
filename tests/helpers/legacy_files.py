"""The legacy files of tests/data/legacy, and what was recorded about each."""

import atexit
import collections
import functools
import importlib.util
import json
import pathlib
import re
import shutil
import tarfile
import tempfile

import h5py
import keras
import numpy as np
import packaging.version
import pytest

from keras_policies.backends.running import backend

# Each backend and the lowest Keras open this release; torch opens all releases, in a
# fifth of the time of jax, which compiles each model.
NEWEST = "2.15.1"
NEWEST_KERAS = re.compile(r"2\.15\.1/|keras-")  # and what Keras 3 exports
SHARE = 5  # one of so many cases is asserted whole where torch does all
KERAS = packaging.version.Version(keras.__version__).release[:2]
IS_LOWEST_KERAS = KERAS == (3, 8)
# Whether stock Keras accepts such models, and computes them as tf.keras does:
# docs/compatibility.md.
TAKES_UNUSED_INPUTS = not (3, 10) <= KERAS < (3, 14)
TRANSPOSES = keras.backend.backend() != "torch" or KERAS >= (3, 15)
DIVIDES_BY_BATCH = KERAS >= (3, 14)  # the losses of activities in TimeDistributed
IS_THOROUGH = keras.backend.backend() == "torch" and not IS_LOWEST_KERAS
once = pytest.mark.once("no backend matters here")
needs_unused_inputs = pytest.mark.skipif(
    not TAKES_UNUSED_INPUTS, reason="this Keras refuses inputs that no layer uses"
)
needs_transposes = pytest.mark.skipif(
    not TRANSPOSES,
    reason="this Keras computes transposed convolutions wrongly on torch",
)
# Before 3.9, stock Keras resizes tensors of torch with torchvision; 3.8 cannot make an
# AUC as it evaluates, from tensors of torch without data.
RESIZES = (
    keras.backend.backend() != "torch"
    or KERAS >= (3, 9)
    or importlib.util.find_spec("torchvision") is not None
)
MAKES_AUC = keras.backend.backend() != "torch" or not IS_LOWEST_KERAS
needs_auc = pytest.mark.skipif(not MAKES_AUC, reason="this Keras makes no AUC on torch")
needs_resizing = pytest.mark.skipif(not RESIZES, reason="torchvision is not installed")
FOLDER = pathlib.Path(__file__).parents[1] / "data" / "legacy"
CORPUS = FOLDER / "corpus"
# For `TarFile.extractall`: Python 3.10.0 to 3.10.11 have no filters.
AS_DATA = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
TOLERANCE = {"float16": 5e-3, "bfloat16": 3e-2}
FORMS = "saved_model", "model.h5", "model.keras"


def is_for_unused_inputs(error):
    """Return whether a file was refused because this Keras takes no unused inputs."""
    return not TAKES_UNUSED_INPUTS and "inputs that no layer uses" in str(error)


def is_for_transposes(error):
    """Return whether this Keras refuses a transposed convolution on torch."""
    return not TRANSPOSES and "lead to a Torch output_padding" in str(error)


class Scale(keras.layers.Layer):
    """The custom layer of write_more.py, for Keras 3."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, input_shape):
        self.offset = self.add_weight(
            name="offset", shape=(input_shape[-1],), initializer="ones"
        )

    def call(self, inputs):
        return inputs * self.factor + self.offset

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class Net(keras.Model):
    """The subclassed model of write_more.py, for Keras 3."""

    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.first = keras.layers.Dense(4, activation="relu", name="first")
        self.blocks = [
            keras.layers.Dense(4, name="a"),
            keras.layers.Dense(4, name="b"),
        ]
        self.last = keras.layers.Dense(units, name="last")

    def call(self, inputs):
        x = self.first(inputs)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


CUSTOM_OBJECTS = {"Scale": Scale, "Net": Net}


def artifacts(folder):
    """Return the paths of all files and folders of a corpus that hold a Keras model."""
    return [
        path
        for case in sorted(folder.glob("*/*"))
        if case.name != "no_metadata"
        for path in (case / form for form in FORMS)
        if path.exists()
    ]


def on_this_backend(names, each_release=False):
    """Return those of some files `release/case/form` that this backend opens.

    torch opens all of them, and so tests the readers. Another backend computes with
    each case once: the newest release that has it (or each), and the forms in turn.
    """
    if IS_THOROUGH:
        return [*names]
    cases = collections.defaultdict(list)
    for name in names:
        release, case, _ = name.split("/")
        cases[case, release if each_release else ""].append(name)
    found = []
    for number, own in enumerate(cases.values()):
        newest = max(own, key=_release).partition("/")[0]
        forms = [name for name in own if name.startswith(f"{newest}/")]
        found.append(forms[number % len(forms)])
    return found


def _release(name):
    """Return the numbers of the release in `release/case/form`."""
    return [int(number) for number in re.findall(r"\d+", name.partition("/")[0])]


def by_release(names):
    """Return parameters for names that begin with a release.

    torch alone opens those of old releases, which are slow.
    """
    slow = pytest.mark.slow("files of older releases", one_of=3)
    return [
        pytest.param(name, id=name, marks=() if is_new else slow)
        for name, is_new in ((name, bool(NEWEST_KERAS.match(name))) for name in names)
        if is_new or IS_THOROUGH
    ]


def is_asserted_whole(names, name):
    """Return whether this backend asserts everything about one of some cases.

    torch does about all of them. Another backend has to predict right with each case,
    and does the rest, which it would compile as well, with every fifth one.
    """
    return IS_THOROUGH or names.index(name) % SHARE == 0


def name_of(path):
    """Return `release/case/form`."""
    return "/".join(path.parts[-3:])


def arrays(path, prefix):
    """Return the arrays of `expected.npz` whose name begins with `prefix`, in order."""
    return in_order(expected(path), prefix)


def unpacked(folder, archives):
    """Unpack tar archives into a folder and return it."""
    for path in archives:
        with tarfile.open(path) as archive:
            archive.extractall(folder, **AS_DATA)
    return folder


@functools.cache
def folder(archive):
    """Return a folder with what a tar archive of this package has, for this process."""
    made = tempfile.mkdtemp(prefix=f"legacy-{archive}-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return unpacked(pathlib.Path(made), [FOLDER / f"{archive}.tar.xz"])


def unpacked_models(folder, archive, names):
    """Unpack some models of a tar archive of this package, and return the folder."""
    with tarfile.open(FOLDER / f"{archive}.tar.xz") as file:
        chosen = [x for x in file if x.name.removeprefix("./").startswith(names)]
        file.extractall(folder, chosen, **AS_DATA)
    return folder


@functools.cache  # several modules look into the same archives
def parts_of(archive):
    """Return the parts of each path in a tar archive."""
    with tarfile.open(archive) as file:
        return [tuple(name.split("/")) for name in file.getnames()]


def names(archive):
    """Return `release/case/form` of each model in a tar archive, sorted."""
    parts = {path[:3] for path in parts_of(archive)}
    found = sorted("/".join(path) for path in parts if path[-1] in FORMS)
    assert found, f"{archive} has no release/case/form: was it packed as `./`?"
    return found


def in_order(stored, prefix):
    """Return the arrays whose name starts with `prefix`, sorted by number."""
    names = (name for name in stored if name.startswith(prefix))
    ordered = sorted(names, key=lambda name: (len(name), name))
    return [stored[name] for name in ordered]


@functools.lru_cache(maxsize=8)
def _stored(case):
    with np.load(case / "expected.npz") as file:
        return {name: file[name] for name in file.files}


def expected(path):
    """Return `{name: array}`, the results that the writing release recorded."""
    return _stored(path.parent)


def about(path):
    """Return the dict of `expected.json`."""
    return json.loads((path.parent / "expected.json").read_text("utf8"))


def edited(source, path, attribute, change):
    """Return the path of a copy of an H5 file, with a JSON attribute changed."""
    shutil.copy(source, path)
    with h5py.File(path, "r+") as file:
        written = json.loads(file.attrs[attribute])
        change(written)
        file.attrs[attribute] = json.dumps(written)
    return path


def as_other_class(written):
    """Give a layer a class of its own that has the name of one of Keras."""
    layer = written["config"]["layers"][1]
    layer["class_name"], layer["config"]["gain"] = "Attention", 2.0


def one(values):
    """Return the only value, or the list."""
    return values[0] if len(values) == 1 else values


def inputs(path):
    """Return the inputs as `predict` takes them."""
    stored = expected(path)
    if path.parent.name == "dict_inputs":
        return {name[2:]: stored[name] for name in stored if name.startswith("x_")}
    return one(arrays(path, "x_"))


def outputs(model, path):
    """Return the list of a model's predictions, in one batch as they were recorded."""
    x = inputs(path)
    batch = len(arrays(path, "x_")[0])
    found = model.predict(x, batch_size=batch, verbose=0)
    return found if isinstance(found, list) else [found]


def called(model, inputs):
    """Return the outputs of a call outside of training, flat, as arrays.

    jax compiles the call as a whole, as it does for `predict`: to compile each op by
    itself takes five times as long.
    """
    return backend.outputs(model, inputs)


def tolerance(path):
    """Return the allowed error of outputs: rounding to float16 or bfloat16, or 1e-5."""
    layers = about(path)["layers"]
    layers = layers + [inner for layer in layers for inner in layer.get("children", [])]
    dtypes = {layer["compute_dtype"] for layer in layers}
    return max(TOLERANCE.get(dtype, 1e-5) for dtype in dtypes)


def layer_weights(model):
    """Return `{"layer/number": float64 array}`, with the names of the corpus."""
    return {
        f"{layer.name}/{number}": np.asarray(weight, "float64")
        for layer in model.layers
        for number, weight in enumerate(layer.get_weights())
    }


def without_dropout(model):
    """Set the rate of every Dropout to 0, as it was for the recorded step."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0


def fused_variances(model, batch):
    """Return `{"layer/number": n}` for the moving variances of 4-D inputs.

    For these, tf.keras (the fused kernel of TensorFlow) applies Bessel's correction,
    `n / (n - 1)`; Keras 3 does not.
    """
    found = {}
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            shape = layer.input.shape
            if len(shape) == 4:
                number = [w is layer.moving_variance for w in layer.weights].index(True)
                found[f"{layer.name}/{number}"] = batch * shape[1] * shape[2]
    return found


def _with_sparse_gradients(model):
    """Return the names of layers whose slots the TensorFlow backend computes wrongly.

    Keras 3.15 squares the rows of an IndexedSlices before it adds up the rows of one
    index, so Adam's second moment of an Embedding is wrong.
    """
    if keras.backend.backend() != "tensorflow":
        return set()
    embeddings = keras.layers.Embedding
    return {layer.name for layer in model.layers if isinstance(layer, embeddings)}


def step_error(model, path):
    """Train on the recorded batch; return the share of weights with a wrong step.

    Returns:
        The share of all numbers whose step differs from the recorded one by more than
        2 % of the largest step in their tensor. Float16 rounding flips the sign of a
        few tiny gradients, and Adam turns each into a whole step.
    """
    without_dropout(model)
    before = layer_weights(model)
    batch = arrays(path, "tx_")
    model.train_on_batch(one(batch), one(arrays(path, "ty_")))
    after, fused = layer_weights(model), fused_variances(model, len(batch[0]))
    off = total = 0
    sparse = _with_sparse_gradients(model)
    for name, found in after.items():
        if name.partition("/")[0] in sparse:
            continue
        wanted = expected(path)[f"after/{name}"].astype("float64")
        if name in fused:
            momentum = 0.99
            share = (fused[name] - 1) / fused[name]
            wanted = before[name] * momentum + share * (
                wanted - before[name] * momentum
            )
        scale = np.max(np.abs(wanted - before[name]), initial=0.0)
        off += np.sum(np.abs(found - wanted) > 0.02 * scale + 1e-7)
        total += found.size
    return off / total
