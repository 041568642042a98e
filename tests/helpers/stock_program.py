"""A program of stock Keras that prints what it sees, as JSON.

    python -c "import stock_program; stock_program.main()"
    python -c "import keras_policies, stock_program; stock_program.main()"

Both print the same. It runs on every backend and every supported Keras, and uses
nothing of this package.
"""

import copy
import inspect
import json
import os
import pickle
import re
import tempfile
import traceback
import warnings
import zipfile

import h5py
import keras
import numpy as np
from keras import layers, ops, optimizers

PARTS = {}
FOLDER = tempfile.mkdtemp()
ADDRESSES = {"shared_object_id"}  # keys of configs
ADDED = {"load_assets"}  # the one method that a class of Keras is given
GROWTH = 2**31 - 1, 2**31, 0, -1, 2000


def part(function):
    """Decorator: what the function returns is printed under its name."""
    PARTS[function.__name__] = function
    return function


def shown(value):
    """Return a value as JSON has it; classes by name, arrays as lists."""
    if isinstance(value, dict):
        return {str(key): shown(value[key]) for key in value if key not in ADDRESSES}
    if isinstance(value, list | tuple):
        return [*map(shown, value)]
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, np.ndarray | np.generic):
        is_known = value.dtype.kind in "biuf"
        return (value if is_known else value.astype("float32")).tolist()
    if isinstance(value, keras.Variable) or ops.is_tensor(value):
        return shown(ops.convert_to_numpy(ops.cast(value, "float32")))
    is_plain = value is None or isinstance(value, bool | int | float | str)
    text = value if is_plain else f"{type(value).__name__}: {value}"
    return without_addresses(text) if isinstance(text, str) else text


def without_addresses(text):
    # The folder first: its random name may look like an address.
    return re.sub(r"0x[0-9a-f]+", "0x", text.replace(FOLDER, "FOLDER"))


def attempted(function, *args, **kwargs):
    """Return what a call returns, or the error with the functions of Keras in it."""
    try:
        return shown(function(*args, **kwargs))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        around = [frame.name for frame in frames if "/keras/src/" in frame.filename]
        causes = error.__cause__, error.__context__
        return shown([type(error), str(error), [*map(type, causes)], around])


def called(layer, *inputs):
    x = inputs if len(inputs) > 1 else inputs[0]
    outputs = layer(x)
    return [keras.backend.standardize_dtype(outputs.dtype), outputs]


def counted(*shape, dtype="float32"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype) / 7


def network(**options):
    """Return a small model whose weights are not random."""
    x = keras.Input((2,), name="x")
    hidden = layers.Dense(2, kernel_initializer="ones", name="hidden", **options)
    last = layers.Dense(1, kernel_initializer="ones", name="last", **options)
    return keras.Model(x, last(hidden(x)), name="network")


def trained(optimizer, model=None, epochs=2, bad=1, **options):
    """Train over NaN in the first batches; return all that a program sees of it."""
    model = model or network()
    x = counted(8, 2)
    x[: 2 * bad : 2, 0] = np.nan
    model.compile(optimizer, "mse", **options)
    fitted = model.fit(
        x, np.ones((8, 1)), batch_size=2, epochs=epochs, shuffle=False, verbose=0
    )
    return {
        "class": type(model.optimizer),
        "history": fitted.history,
        "names": [variable.path for variable in model.optimizer.variables],
        "variables": model.optimizer.variables,
        "weights": model.get_weights(),
    }


def scaled(growth=2000, scale=1024.0):
    return optimizers.LossScaleOptimizer(
        optimizers.SGD(0.1),
        initial_scale=scale,
        dynamic_growth_steps=growth,
        name="scaled",
    )


@part
def the_loss_scale_optimizer_of_keras():
    optimizer, weight = scaled(), keras.Variable([1.0], name="weight")
    optimizer.build([weight])
    gradients = [ops.convert_to_tensor([1024.0])]
    written = copy.deepcopy(optimizers.serialize(optimizer))
    read = optimizers.deserialize(copy.deepcopy(written))  # Keras changes it
    by_config = optimizers.LossScaleOptimizer.from_config(optimizer.get_config())
    named = optimizers.get(copy.deepcopy(written))
    return [
        *map(type, (optimizer, read, by_config, named, copy.copy(optimizer))),
        type(optimizer) is optimizers.LossScaleOptimizer,
        type(optimizer).__mro__,
        [name for name in vars(type(optimizer)) if name != "__dict__"],
        written,
        read.get_config(),
        optimizer.scale_loss(3.0),
        [variable.path for variable in optimizer.variables],
        attempted(optimizer.apply, gradients, [weight]),  # Keras 3.8 cannot on jax
    ]


@part
def the_loss_scale_optimizer_over_a_nan():
    found = {growth: attempted(trained, scaled(growth)) for growth in GROWTH}
    four = attempted(trained, scaled(scale=2.0), bad=4, epochs=1)
    return {**found, "four times": four}


@part
def every_optimizer():
    found = {}
    for name in sorted(vars(optimizers)):
        cls = getattr(optimizers, name)
        is_class = isinstance(cls, type) and issubclass(cls, optimizers.Optimizer)
        if is_class and name not in ("Optimizer", "LossScaleOptimizer"):
            optimizer = cls(0.1, name="own")
            found[name] = [
                attempted(trained, optimizer, epochs=1),
                optimizers.serialize(optimizer),
                type(optimizers.deserialize(optimizers.serialize(optimizer))),
            ]
    return found


@part
def policies_in_training():
    found = {}
    for policy in "float32", "mixed_float16", "mixed_bfloat16", "float16":
        keras.config.set_dtype_policy(policy)
        for scales in True, False:
            optimizer = optimizers.Adam(0.1, name="adam")
            found[policy, scales] = attempted(
                trained, optimizer, network(), auto_scale_loss=scales
            )
        found[policy] = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    return found


@part
def layers_that_backends_compute_differently():
    pool = layers.AveragePooling2D(3, 2, "same")
    column, row, whole = counted(1, 4, 1), counted(1, 1, 4), counted(3, 4, 5)
    normal = layers.LayerNormalization
    return [
        attempted(called, pool, counted(2, 4, 4, 1)),
        attempted(called, layers.AveragePooling1D(3, 1, "same"), counted(2, 5, 1)),
        attempted(called, layers.Add(), column, row),
        attempted(called, layers.Add(), counted(2, 3), counted(3, 1)[:2]),
        attempted(called, layers.Subtract(), column, row),
        attempted(ops.add, np.ones((2, 3)), np.ones((3, 1))[:2]),
        *(attempted(called, normal(axis=axis), whole) for axis in (-1, 1, (1, 2))),
        attempted(called, normal(), whole.astype("int32")),
        attempted(called, layers.UnitNormalization(), whole.astype("int32")),
        attempted(called, layers.BatchNormalization(), whole),
        attempted(called, layers.MultiHeadAttention(1, 1), whole, whole),
    ]


@part
def layers_and_inputs():
    """Dtypes of layers, weights and outputs, of inputs of many dtypes."""
    found = {}
    for policy in None, "float16", "mixed_float16", keras.DTypePolicy("bfloat16"):
        for dtype in "float16", "float32", "float64", "int32", "bool":
            layer = layers.Dense(1, kernel_initializer="ones", dtype=policy, name="d")
            x = np.ones((1, 2), dtype)
            inner = layers.Dense(1, kernel_initializer="ones", name="inner")
            outer = keras.Sequential([inner], name="outer")
            found[str(policy), dtype] = [
                attempted(called, layer, x),
                attempted(called, outer, x),
                [layer.compute_dtype, layer.get_config(), inner.compute_dtype],
                [sorted(name for name in vars(layer) if "torch" not in name)],
            ]
    return found


class WithWeights(layers.Layer):
    """Creates weights with arguments by position and by name."""

    def build(self, shape):
        self.first = self.add_weight((2,), "ones")
        self.second = self.add_weight((2,), "ones", "float16", name="second")
        self.third = self.add_weight(name="third", shape=(), dtype="int32")
        self.add_loss(lambda: ops.sum(self.first))

    def call(self, x):
        return x * self.first


class WithoutSuper(layers.Layer):
    def __init__(self):
        pass

    def call(self, x):
        return x


class OfModel(keras.Model):
    """A subclassed model with a training step of its own, and a loss."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.own = WithWeights(name="own")

    def call(self, x):
        self.add_loss(ops.sum(x * 0 + 1))
        return self.own(x)


@part
def classes_of_the_user():
    def weights(layer):
        layer.build((None, 2))
        return [
            [type(weight), weight.path, keras.backend.standardize_dtype(weight.dtype)]
            for weight in layer.weights
        ]

    model = OfModel(name="of_model")
    return [
        attempted(weights, WithWeights(name="weights")),
        attempted(weights, WithWeights(dtype="mixed_float16", name="mixed")),
        attempted(lambda: WithoutSuper()(np.ones((1, 2)))),
        attempted(lambda: WithoutSuper().add_weight((2,))),
        attempted(trained, optimizers.SGD(0.1, name="sgd"), model),
        attempted(trained, optimizers.SGD(0.1), network(activity_regularizer="l2")),
        attempted(keras.Model.from_config, {"name": "lost"}),
        attempted(OfModel.from_config, {"name": "read", "dtype": "float16"}),
    ]


@part
def copies():
    model = network()
    model.compile(scaled(), "mse")
    layer = layers.Dense(2, dtype="mixed_float16", name="layer")
    found = []
    for one in model, keras.Sequential([layers.Dense(1)], name="sequential"):
        found += [keras.models.clone_model(one).get_config(), one.get_config()]
        found += [type(one).from_config(one.get_config()).to_json()]
    for one in layer, layer.dtype_policy, scaled(), optimizers.Adam():
        found += [type(copy.deepcopy(one)), attempted(pickle.dumps, one) is not None]
        found += [type(pickle.loads(pickle.dumps(one)))]
    return found


def read(path, **options):
    """Return what a program sees of a model that Keras opens."""
    model = keras.models.load_model(path, **options)
    optimizer = getattr(model, "optimizer", None)
    return [
        type(model),
        [type(layer) for layer in model.layers],
        model.get_weights(),
        type(optimizer),
        optimizer and optimizer.get_config(),
        optimizer and optimizer.variables,
        model.dtype_policy,
        model.get_compile_config(),
    ]


def written(path):
    """Return the configs in a file, and the names and values of its weights."""
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist())
            config = json.loads(archive.read("config.json"))
            archive.extract("model.weights.h5", FOLDER)
        return [names, config, written(os.path.join(FOLDER, "model.weights.h5"))]
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update(
                {name: item[()] if isinstance(item, h5py.Dataset) else None}
            )
        )
        found |= {name: file.attrs[name] for name in file.attrs}
    found.pop("keras_version", None)
    return {
        name: np.asarray(v).tolist() if v is not None else v
        for name, v in found.items()
    }


@part
def saving_and_loading():
    found = []
    for policy in "float32", "mixed_float16":
        for make in scaled, lambda: optimizers.Adam(0.1, name="adam"):
            model = network(dtype=policy)
            keras.config.set_dtype_policy(policy)
            trained(make(), model, epochs=1)
            for ending in ".keras", ".h5", ".weights.h5":
                path = os.path.join(FOLDER, f"model{ending}")
                if ending == ".weights.h5":
                    model.save_weights(path)
                    found += [written(path), attempted(model.load_weights, path)]
                    continue
                model.save(path)
                found += [written(path), attempted(read, path)]
                found += [attempted(read, path, compile=False)]
            keras.config.set_dtype_policy("float32")
    return found


@part
def states_of_a_stateful_layer():
    x = keras.Input(batch_shape=(2, 3, 1))
    options = {"stateful": True, "unroll": True, "name": "gru"}
    ones = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
    model = keras.Sequential([x, layers.GRU(2, **ones, **options)], name="recurrent")
    outputs = [model(counted(2, 3, 1)) for _ in range(2)]
    path = os.path.join(FOLDER, "stateful.keras")
    model.save(path)
    again = keras.models.load_model(path)
    return [outputs, written(path), again(counted(2, 3, 1)), again.layers[0].states]


class Policy(keras.DTypePolicy):
    """A user's class with the name of one of ours."""


class PolicyV1(Policy):
    pass


@part
def classes_of_the_user_with_names_of_ours():
    own = {"Policy": Policy, "PolicyV1": PolicyV1}
    found = []
    for name in own:
        config = {"class_name": name, "config": {"name": "mixed_float16"}}
        lost = {"class_name": name, "config": {"units": 3}}
        read_by = [
            keras.saving.deserialize_keras_object,
            keras.utils.legacy.deserialize_keras_object,
            keras.dtype_policies.deserialize,
        ]
        found += [
            attempted(lambda read, config: type(read(config, own)), read, config)
            for read in read_by
        ]
        found += [attempted(read, lost) for read in read_by[:2]]
        with keras.saving.custom_object_scope(own):
            layer = layers.Dense.from_config({"units": 2, "dtype": config})
            found.append(type(layer.dtype_policy))
    return found


@part
def errors():
    def file(name, content=b"nothing"):
        path = os.path.join(FOLDER, name)
        with open(path, "wb") as opened:
            opened.write(content)
        return path

    def h5(name, cut=0, **attributes):
        path = os.path.join(FOLDER, name)
        with h5py.File(path, "w") as opened:
            opened.attrs.update(attributes)
        os.truncate(path, os.path.getsize(path) - cut)
        return path

    def model_of(dtype):
        dense = {"class_name": "Dense", "config": {"units": 2, "dtype": dtype}}
        return {"name": "model", "layers": [dense]}

    folder = os.path.join(FOLDER, "saved_model")
    os.makedirs(folder)
    file("saved_model/saved_model.pb")
    float17 = {"class_name": "Policy", "config": {"name": "float17"}}
    lost = {"module": "keras.layers", "class_name": "Lost", "config": {}}
    of_scale = optimizers.LossScaleOptimizer.from_config
    tries = [
        (keras.models.load_model, folder),
        (keras.models.load_model, file("a.keras")),
        (keras.models.load_model, file("a.h5")),
        (keras.models.load_model, file("a.pb")),
        (keras.saving.load_model, os.path.join(FOLDER, "none.keras")),
        (keras.saving.load_model, 3),
        (keras.saving.load_model, os.path.join(FOLDER, "none.h5")),
        (keras.saving.load_model, h5("empty.h5")),
        (keras.saving.load_model, h5("cut.h5", 1000, model_config="{}")),
        (keras.saving.load_model, h5("list.h5", model_config="[]")),
        (keras.saving.load_model, h5("open.h5", model_config="{")),
        (keras.saving.load_model, h5("number.h5", model_config=3)),
        (keras.saving.load_model, "\0.h5"),
        (keras.saving.deserialize_keras_object, lost),
        (keras.saving.deserialize_keras_object, {"class_name": "Lost", "config": {}}),
        (keras.utils.legacy.deserialize_keras_object, lost),
        (keras.utils.legacy.deserialize_keras_object, "lost"),
        (keras.layers.deserialize, lost),
        (keras.models.model_from_json, "{}"),
        (keras.models.model_from_json, json.dumps(lost)),
        (keras.Model.from_config, {"layers": [lost], "name": "a"}),
        (keras.Sequential.from_config, {"layers": [lost], "name": "a"}),
        (keras.Sequential.from_config, {"layers": 3}),
        (keras.Sequential.from_config, model_of(float17)),
        (keras.Sequential.from_config, model_of({"class_name": "Policy"})),
        (keras.Sequential.from_config, model_of({**lost, "class_name": "Policy"})),
        (keras.dtype_policies.get, "float17"),
        (keras.dtype_policies.get, 3),
        (keras.dtype_policies.deserialize, lost),
        (keras.DTypePolicy, "float17"),
        (keras.DTypePolicy.from_config, {"name": 3}),
        (keras.DTypePolicy.from_config, {}),
        (layers.Dense, 2, "relu", True, "float17"),
        (lambda: layers.Dense(2, dtype="float17")),
        (lambda: layers.Dense(2, dtype={"class_name": "Lost"})),
        (lambda: layers.Dense(2, lost=1)),
        (lambda: layers.Dense(2)(np.ones(()))),
        (lambda: layers.Dense(2)(np.ones((1, 2)), lost=1)),
        (lambda: layers.Dense(2).add_weight(lost=1)),
        (lambda: layers.Dense(2).add_weight((2,), "lost")),
        (lambda: keras.Sequential([layers.Dense(2, name="a")])("text")),
        (of_scale, {}),
        (of_scale, {"inner_optimizer": {"class_name": "Lost", "config": {}}}),
        (of_scale, {"inner_optimizer": 3}),
        (optimizers.LossScaleOptimizer, "sgd"),
        (lambda: optimizers.LossScaleOptimizer(optimizers.SGD(), 0.0, lost=1)),
        (optimizers.deserialize, lost),
        (optimizers.get, "lost"),
        (lambda: network().compile(lost=1)),
        (lambda: network().compile("lost")),
        (lambda: network().fit(np.ones((1, 2)))),
        (lambda: network().save(os.path.join(FOLDER, "model"))),
        (lambda: network().save_weights(os.path.join(FOLDER, "model"))),
        (lambda: network().load_weights(file("b.weights.h5"))),
    ]
    return [
        attempted(*one) if isinstance(one, tuple) else attempted(one) for one in tries
    ]


@part
def names_of_the_global_policy():
    found = []
    for policy in "mixed_float16", keras.DTypePolicy("bfloat16"), "float32":
        keras.config.set_dtype_policy(policy)
        unnamed = attempted(keras.DTypePolicy.from_config, {"name": None})
        layer = layers.Dense.from_config({"units": 1, "dtype": None})
        model = keras.Sequential.from_config({"name": "empty", "layers": []})
        found += [unnamed, keras.dtype_policies.get(None), layer.dtype_policy]
        found += [model.dtype_policy, keras.mixed_precision.dtype_policy()]
    mapped = keras.dtype_policies.DTypePolicyMap(default_policy="mixed_float16")
    mapped["hidden"] = keras.DTypePolicy("float32")
    model = network(dtype=mapped)
    found += [[layer.compute_dtype for layer in model.layers], model.get_config()]
    return found


@part
def public_classes():
    """The classes of Keras, their bases, and how their methods are called."""
    found = {}
    for module in keras, layers, optimizers, keras.saving, keras.models:
        for name, value in sorted(vars(module).items()):
            if inspect.isfunction(value):
                found[name] = str(inspect.signature(value)), value.__module__
            if not isinstance(value, type) or not value.__module__.startswith("keras"):
                continue
            found[name] = [
                value,
                value.__mro__,
                [name for name in dir(value) if name[0] != "_" and name not in ADDED],
                {
                    method: [str(inspect.signature(member)), member.__qualname__]
                    for method, member in inspect.getmembers(value, inspect.isroutine)
                    if method in ("__call__", "__init__", "add_weight", "compile")
                    or method in ("from_config", "get_config", "build")
                },
            ]
    return found


@part
def every_layer():
    """The configs of all layers that can be made without arguments."""
    found = {}
    for name, cls in sorted(vars(layers).items()):
        if isinstance(cls, type) and issubclass(cls, layers.Layer):
            config = attempted(lambda cls=cls: cls(name="own").get_config())
            found[name] = config
    return found


def main():
    warnings.simplefilter("ignore")
    found = {}
    for name, function in PARTS.items():
        keras.utils.clear_session()
        keras.utils.set_random_seed(0)
        found[name] = shown(function())
    print(json.dumps(found))
