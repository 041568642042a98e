"""Uses the package under a Keras in which one private name has moved.

`python without_private_api.py` prints a JSON object: place -> outcomes. Keras is
imported once, and each place is taken away in a fork of this process.

Keras itself goes on working, as if it kept the thing elsewhere: a copy without it
replaces the module at the old place, once Keras has imported what it needs.
"""

import contextlib
import importlib
import io
import json
import os
import pathlib
import pickle
import sys
import tempfile
import types
import warnings

if os.environ.get("KERAS_BACKEND") != "tensorflow":
    sys.modules["tensorflow"] = None  # Keras imports it in each fork: seconds

import keras

# All modules that places are in, so that Keras holds what it needs.
from keras.src import models, optimizers, saving  # noqa: F401, TID251

LEGACY = {"class_name": "Policy", "config": {"name": "mixed_float16"}}
LAYERS = [
    {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 3]}},
    {"class_name": "Dense", "config": {"name": "a", "units": 2, "dtype": LEGACY}},
]
ZEROS = {"kernel_initializer": "zeros"}  # random ones are compiled


def take_away(module_name, name):
    """Let a module of Keras be without a name, or a class without a member."""
    module = importlib.import_module(f"keras.src.{module_name}")
    copied = types.ModuleType(module.__name__)
    vars(copied).update(vars(module))
    first, *members = name.split(".")
    if members:  # a class that inherits the member, and has the others
        held = getattr(module, first)
        own = {key: value for key, value in vars(held).items() if key not in members}
        for key in "__dict__", "__weakref__":  # Python makes them
            own.pop(key, None)
        made = types.new_class(first, (held,), {}, lambda body: body.update(own))
        setattr(copied, first, made)
    else:
        delattr(copied, first)
    sys.modules[module.__name__] = copied
    above, _, last = module.__name__.rpartition(".")
    setattr(sys.modules[above], last, copied)


def use_policies():
    import keras_policies as mp

    layer = keras.layers.Dense(2, dtype=mp.Policy("float16_with_float32_vars"), **ZEROS)
    layer.build((None, 3))
    assert (layer.compute_dtype, layer.kernel.dtype) == ("float16", "float32")


def use_infer():
    from keras_policies import Policy

    layer = keras.layers.Dense(2, dtype=Policy("infer"), **ZEROS)
    layer(keras.ops.ones((1, 3), "float16"))
    assert layer.compute_dtype == "float16"


def use_saving():
    from keras_policies import Policy

    written = keras.saving.serialize_keras_object(Policy("mixed_float16"))
    assert written["module"] == "keras"


def use_reading():
    model = keras.Sequential.from_config({"name": "b", "layers": LAYERS})
    assert model.layers[0].compute_dtype == "float16"


def use_loss_scaling():
    from keras_policies import LossScaleOptimizer

    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), 128)
    weight = keras.Variable([1.0])
    optimizer.apply([keras.ops.convert_to_tensor([256.0])], [weight])
    assert float(weight.numpy()[0]) == 0.0


def use_unpickling():
    from keras_policies import LossScaleOptimizer

    optimizer = LossScaleOptimizer(keras.optimizers.Lamb(0.5), 128)
    optimizer.build([keras.Variable([1.0])])
    copied = pickle.loads(pickle.dumps(optimizer))
    weight = keras.Variable([1.0])
    copied.apply([keras.ops.convert_to_tensor([256.0])], [weight])
    assert float(weight.numpy()[0]) == 0.5


def use_slots():
    from keras_policies import keras_internals

    optimizer, weight = keras.optimizers.Adam(), keras.Variable([1.0])
    optimizer.build([weight])
    assert keras_internals.slots(optimizer, "m")[id(weight)].shape == (1,)


def use_summary():
    import keras_policies as mp

    x = keras.Input((3,), dtype="float16")
    model = keras.Model(x, keras.ops.softmax(keras.layers.Dense(2)(x)))
    mp.summary(model, print_fn=lambda text: None)


USES = {
    "policies": use_policies,
    "policies that wait for an input": use_infer,
    "saving policies": use_saving,
    "reading legacy policies": use_reading,
    "loss scaling": use_loss_scaling,
    "unpickling optimizers": use_unpickling,
    "optimizer slots": use_slots,
    "graphs of operations": use_summary,
    "weights of layers": use_summary,
}


def outcomes(module, name):
    """Return what happens at import, and in each use, without a place."""
    take_away(module, name)
    found = {}
    for what in ("import", *USES):
        try:
            if what == "import":
                importlib.import_module("keras_policies")
            else:
                USES[what]()
            found[what] = "works"
        except Exception as error:
            # Where Keras fails first, its own error stays, with ours in a note.
            (*_, said) = "", *getattr(error, "__notes__", ())
            said = said.removeprefix("keras_policies cannot read it either: ")
            found[what] = said or f"{type(error).__name__}: {error}"
        if found["import"] != "works":
            break
    return found


def in_a_fork(function, *args):
    """Return what a function returns in a fork of this process, by way of JSON."""
    with tempfile.NamedTemporaryFile("r") as answer:
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                with contextlib.redirect_stdout(io.StringIO()):
                    found = function(*args)
                pathlib.Path(answer.name).write_text(json.dumps(found))
            os._exit(0)
        os.waitpid(child, 0)
        return json.loads(answer.read() or "null")


def listed():
    """Return `[[module, name]]` of the places, without importing them here."""
    from keras_policies.keras_internals import private_api

    every = {
        (p.module, p.name) for own in private_api.PRIVATE_API.values() for p in own
    }
    return sorted((module, name.removesuffix(".fget")) for module, name in every)


def main(wanted=""):
    """Print the outcomes without the places of which `wanted` is a part."""
    warnings.simplefilter("ignore")
    found = {
        f"keras.src.{module}.{name}": in_a_fork(outcomes, module, name)
        for module, name in in_a_fork(listed)
        if wanted in f"{module}.{name}"
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
