"""CONTRIBUTING's recipes, followed as they are written."""

import pathlib
import sys
import tempfile
import types

import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import LossScale, LossScaleOptimizer, load_model
from keras_policies.keras_internals import private_api
from keras_policies.legacy.ops import node_def, registry, table
from keras_policies.legacy.ops.converters import Value
from keras_policies.legacy.ops.registry import op
from keras_policies.legacy.plan import classes
from keras_policies.legacy.readers import hdf5, readers
from keras_policies.legacy.values.evaluator import ops

H5 = legacy_files.CORPUS / "2.15.1" / "seq_dense" / "model.h5"


def test_an_op_is_a_function_with_a_decorator(monkeypatch):
    for known in registry.FUNCTIONS, registry.NODES:
        for name in "nn.tripled", "Tripled":  # to forget it afterwards
            monkeypatch.setitem(known, name, None)
            known.pop(name)

    @op("nn.tripled Tripled(features)", renamed={"x": "features"})
    def tripled(features: Value) -> Value:
        return ops.multiply(features, 3)

    assert table.call("nn.tripled", [keras.Input((4,))], {}).shape == (None, 4)
    found = table.call("nn.tripled", [], {"x": np.array([1.0, 2.0])})
    assert np.asarray(found).tolist() == [3, 6]
    node = {"op": "Tripled", "attr": {}}
    assert node_def.call(node, [keras.Input((4,))], {}).shape == (None, 4)


def test_a_legacy_layer_is_a_row_of_a_table(tmp_path, monkeypatch):
    path = tmp_path / "model.h5"
    path.write_bytes(H5.read_bytes().replace(b'"Dense"', b'"Compa"'))
    with pytest.raises(ValueError, match="does not have:\n  Compa"):
        load_model(path, compile=False)
    monkeypatch.setitem(classes.RENAMED_CLASSES, "Compa", "Dense")
    layers = load_model(path, compile=False).layers
    assert any(type(layer) is keras.layers.Dense for layer in layers)


def test_a_reader_is_a_module_and_the_first_bytes_of_its_format(tmp_path, monkeypatch):
    def read(path):
        with tempfile.NamedTemporaryFile(dir=tmp_path, delete=False) as file:
            file.write(path.read_bytes()[8:])
        return hdf5.read(pathlib.Path(file.name))

    path = tmp_path / "model.new"
    path.write_bytes(b"NEWMODEL" + H5.read_bytes())
    with pytest.raises(ValueError, match="it begins with b'NEWMODEL'"):
        load_model(path)
    module = types.ModuleType("keras_policies.legacy.readers.new")
    module.read = read
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(readers.SIGNATURES, b"NEWMODEL", "new")
    assert load_model(path, compile=False).name == "seq_dense"


def test_what_leans_on_a_private_name_raises_without_it(monkeypatch):
    error = private_api.UnsupportedKerasError(
        private_api.SAVING, "keras.src.moved", "nothing", ()
    )
    monkeypatch.setattr(private_api, "MISSING", {private_api.SAVING: error})

    @private_api.needs(private_api.SAVING)
    def leaning():
        return "used"

    with pytest.raises(private_api.UnsupportedKerasError, match="keras.src.moved"):
        leaning()
    monkeypatch.setattr(private_api, "MISSING", {})
    assert private_api.needs(private_api.SAVING)(lambda: "used")() == "used"


def test_a_loss_scale_is_a_class_with_a_rule():
    class Halving(LossScale):
        initial_loss_scale = 8.0

        def after_step(self, scale, good_steps, finite):
            return scale / 2, good_steps

        def get_config(self):
            return {}

    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), Halving())
    variable = keras.Variable([3.0])
    optimizer.build([variable])
    optimizer.apply([keras.ops.convert_to_tensor([8.0])], [variable])
    assert float(variable.numpy()[0]) == 2.0
    assert float(optimizer.loss_scale) == 4.0
