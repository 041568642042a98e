"""Custom layers that take no name get that in the file, written by write_names.py."""

import collections

import keras
import legacy_files
import numpy as np
import pytest
from keras import layers

import keras_policies
from keras_policies import LegacyModelError
from keras_policies.legacy.assembly import build
from keras_policies.legacy.base import configs

ARCHIVE = legacy_files.FOLDER / "names.tar.xz"
NAMES = [name for name in legacy_files.names(ARCHIVE) if "/own/" not in name]
# The configs of these layers say neither their names nor whether they are trained.
AMBIGUOUS = "/inside/model.h5", "/wrapped/model.h5"
pytestmark = pytest.mark.once("names are those of a file")


class Scale(layers.Layer):
    """Takes no name, and its config holds none."""

    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = factor
        self.first = layers.Dense(5, activation="tanh")
        self.second = layers.Dense(5)

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build(input_shape)

    def call(self, inputs):
        return self.second(self.first(inputs)) * self.factor

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {"factor": self.factor}


class Deaf(Scale):
    """Takes a name and ignores it."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(factor)

    def get_config(self):
        return {"factor": self.factor, "name": self.name}


class Block(keras.Model):
    """A model that is used as a layer and takes no name."""

    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = factor
        self.inner = Scale(factor)

    def call(self, inputs):
        return self.inner(inputs) + 1.0

    def get_config(self):
        return {"factor": self.factor}


class Gain(keras.Model):
    """A Functional model with weights of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gain = self.add_weight(name="gain", shape=(2,), initializer="ones")
        self.shift = self.add_weight(
            name="shift", shape=(2,), initializer="zeros", trainable=False
        )

    def call(self, inputs, training=None, mask=None):
        outputs = super().call(inputs, training=training, mask=mask)
        return outputs * self.gain + self.shift


CUSTOM_OBJECTS = {cls.__name__: cls for cls in (Scale, Deaf, Block, Gain)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("names"), [ARCHIVE])


@pytest.mark.parametrize("name", legacy_files.by_release(NAMES))
def test_layers_that_take_no_name_get_their_weights_each_time(name, folder):
    path = folder / name
    if name.endswith(AMBIGUOUS):
        with pytest.raises(LegacyModelError, match="does not record which parts"):
            keras_policies.load_model(path, CUSTOM_OBJECTS)
        return
    with np.load(path.parent / "expected.npz") as stored:
        for _ in range(2):  # Keras numbers its own names: scale, then scale_2
            model = keras_policies.load_model(path, CUSTOM_OBJECTS)
            found = model.predict(stored["x"], verbose=0)
            np.testing.assert_allclose(found, stored["y"], 1e-5, 1e-5)


CASES = collections.Counter(
    name.rpartition("/")[0] for name in NAMES if not name.endswith(AMBIGUOUS)
)
SEVERAL = [case for case, forms in CASES.items() if forms > 1]


@pytest.mark.parametrize("case", legacy_files.by_release(SEVERAL))
def test_each_form_of_a_model_gives_the_same_weights(case, folder):
    """The outputs do not show all of them, since the inputs of some tanh are large."""
    names = [name for name in NAMES if name.startswith(f"{case}/")]
    first, *others = (
        keras_policies.load_model(folder / name, CUSTOM_OBJECTS).get_weights()
        for name in names
        if not name.endswith(AMBIGUOUS)
    )
    for weights in others:
        for one, other in zip(first, weights, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", ["model.h5", "model.keras", "saved_model"])
@pytest.mark.parametrize(
    ("case", "names"),
    [
        pytest.param("swapped", ["scale_3", "scale_2", "dense_8"], id="functional"),
        pytest.param("sequence", ["scale_4", "scale_2", "scale_3"], id="sequential"),
    ],
)
def test_layers_have_the_names_in_the_file(case, names, form, folder):
    if (case, form) == ("sequence", "model.keras"):  # the only form that has no names
        names = ["scale", "scale_1", "scale_2"]
    model = keras_policies.load_model(folder / "2.15.1" / case / form, CUSTOM_OBJECTS)
    found = [layer.name for layer in model.layers]
    assert [name for name in found if not name.startswith("input")] == names


def test_a_converted_model_keeps_the_order_of_its_layers(folder, tmp_path):
    case, new = folder / "2.15.1" / "swapped", tmp_path / "new.keras"
    keras_policies.convert_model(case / "model.h5", new, CUSTOM_OBJECTS)
    again = keras.models.load_model(new, CUSTOM_OBJECTS)
    with np.load(case / "expected.npz") as stored:
        found = again.predict(stored["x"], verbose=0)
        np.testing.assert_allclose(found, stored["y"], 1e-5, 1e-5)


def gain():
    inputs = keras.Input((5,))
    return Gain(inputs, layers.Dense(2)(inputs))


OWN = "2.15.1/model.h5", "2.15.1/model.keras", "2.15.1/saved_model", "2.4.4/saved_model"


@pytest.mark.parametrize("name", OWN)
def test_weights_of_the_model_itself_are_restored(name, folder):
    release, form = name.split("/")
    path = folder / release / "own" / form
    with np.load(path.parent / "expected.npz") as stored:
        model = keras_policies.load_model(path, CUSTOM_OBJECTS)
        assert type(model) is Gain
        found = [model.predict(stored["x"], verbose=0)]
        if form != "model.keras":
            model = gain()
            keras_policies.load_weights(model, path)
            found.append(model.predict(stored["x"], verbose=0))
        for each in found:
            np.testing.assert_allclose(each, stored["y"], 1e-5, 1e-5)


def test_weights_of_the_model_itself_that_a_file_lacks_are_told(folder):
    path = folder / "2.4.4" / "own" / "model.h5"
    message = "'.*/gain', the model's own weight, which is not in the file"
    with pytest.warns(UserWarning, match=message):
        model = keras_policies.load_model(path, CUSTOM_OBJECTS)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model.gain), [1, 1])
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel)
    model = gain()
    with pytest.warns(UserWarning, match=message):
        keras_policies.load_weights(model, path)
    np.testing.assert_array_equal(model.layers[-1].get_weights()[0], kernel)


class Other(Scale):
    """Computes something else than the class in the files."""

    def call(self, inputs):
        return super().call(inputs) + 0.5


def test_a_class_that_is_not_the_files_is_refused(folder):
    path, objects = folder / "2.15.1" / "swapped" / "saved_model", {"Scale": Other}
    with pytest.raises(LegacyModelError, match=r"its own graph .*'scale_3'"):
        keras_policies.load_model(path, objects)
    model = keras_policies.load_model(path, objects, verify=False)
    assert [type(layer) for layer in model.layers[1:3]] == [Other, Other]


def test_weights_of_one_shape_in_each_others_place_are_found(folder, monkeypatch):
    """A SavedModel is compared with its own graph, whatever classes are passed."""
    stock = build.assign

    def assign(pairs, advance):
        # Those of the layer that is called last: what is before it comes to 1 in tanh.
        at = [at for at, (item, _) in enumerate(pairs) if item.shape == (5, 5)]
        first, second = at[2:]
        values = [weight for _, weight in pairs]
        values[first], values[second] = values[second], values[first]
        stock([*zip((item for item, _ in pairs), values, strict=True)], advance)

    monkeypatch.setattr(build, "assign", assign)
    path = folder / "2.15.1" / "swapped" / "saved_model"
    with pytest.raises(LegacyModelError, match="its own graph"):
        keras_policies.load_model(path, CUSTOM_OBJECTS)


def sequential(*layers):
    return {
        "class_name": "Sequential",
        "config": {"name": "model", "layers": [*layers]},
    }


def entry(class_name, name=None, **more):
    named = {} if name is None else {"name": name}
    return {"class_name": class_name, "config": named, **more}


def test_a_new_name_is_no_other_layers():
    model = sequential(entry("MyScale"), entry("Dense", "my_scale_1"), entry("MyScale"))
    found = configs.inner_layers(configs.with_new_names(model))
    assert [configs.name_of(layer) for layer in found] == [
        "my_scale",
        "my_scale_1",
        "my_scale_2",
    ]


def test_a_shared_layer_has_one_new_name():
    first, again = (
        entry("Scale", shared_object_id=3),
        entry("Scale", shared_object_id=3),
    )
    other = entry("Scale", shared_object_id=4)
    model = sequential(sequential(first, other), again)
    found = configs.inner_layers(configs.with_new_names(model))
    inner = [configs.name_of(layer) for layer in configs.inner_layers(found[0])]
    assert (inner, configs.name_of(found[1])) == (["scale", "scale_1"], "scale")


def test_names_of_another_number_of_layers_are_not_given():
    model = sequential(entry("Scale"), entry("Scale"))
    assert configs.with_listed_names(model, ["scale"]) is model
