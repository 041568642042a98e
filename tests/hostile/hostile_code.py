"""Files whose strings become code, if their source code is made of text.

    KERAS_BACKEND=torch python tests/hostile/hostile_code.py --inputs 20000

writes the source code of files with such strings in every name, key and value, and
prints those that ran something, or whose code has a name that is not ours.
"""

import argparse
import ast
import json
import pathlib
import random
import tempfile
import warnings
import zipfile
from unittest import mock

import h5py
import numpy as np

CANARY = "it_ran"
RUN = f"getattr(__import__('os'),'system')('touch {CANARY}')"
# What a text of code could take for something else: each is put into each place.
WORDS = [
    *(f"+str({RUN})+", f'"+str({RUN})+"', f"'+str({RUN})+'", f"x name=name {RUN}"),
    *(f"\0{RUN}", f"\0000\000 is None or {RUN}", f"{{{RUN}}}", f"{{{{{RUN}}}}}"),
    *("\\", f'\\"+{RUN}#', f"\n    {RUN}\n", f"\r{RUN}", f"\u2028{RUN}\u2029"),
    *(f"dtype={RUN}", f"name={RUN}", f"x={RUN},y", f'"""\n{RUN}\n"""', "#", "{i}"),
    *("name", "file", "float", "model", "build_model", "lambda", "ops", "keras"),
    *(
        "größe",
        "\uff4e\uff41\uff4d\uff45",
        "\ud800",
        "a" * 300,
        "_",
        "",
        "dense_1",
        "x_01_2",
        "\x7f",
    ),
]


def of_input(name):
    """Return the config of an input."""
    config = {"batch_input_shape": [None, 3], "dtype": "float32", "name": name}
    config |= {"sparse": False, "ragged": False}
    return {
        "class_name": "InputLayer",
        "name": name,
        "config": config,
        "inbound_nodes": [],
    }


def of_layer(kind, name, inbound="i", **config):
    """Return the config of a layer that is called once."""
    return {
        "class_name": kind,
        "name": name,
        "config": {"name": name, "trainable": True, "dtype": "float32", **config},
        "inbound_nodes": [[[inbound, 0, 0, {}]]],
    }


def functional(name, layers, start, end):
    """Return the config of a Functional."""
    config = {"name": name, "layers": layers, "input_layers": [[start, 0, 0]]}
    config["output_layers"] = [[end, 0, 0]]
    return {"class_name": "Functional", "config": config}


def write(path, config, weights=(), training=None):
    """Write an H5 file of tf.keras; the layers `weights` have a kernel."""
    with h5py.File(path, "w") as file:
        stamps = {"keras_version": "2.15.0", "backend": "tensorflow"}
        group = file.create_group("model_weights")
        for each in file, group:
            each.attrs.update(stamps)
        file.attrs["model_config"] = json.dumps(config)
        if training:
            file.attrs["training_config"] = json.dumps(training)
        names = [each["name"] for each in config["config"]["layers"]]
        group.attrs["layer_names"] = [name.encode() for name in names]
        for name in names:
            kernel = np.ones((3, 3), "float32")
            has_weights = name in weights
            part = group.create_group(name)
            part.attrs["weight_names"] = np.array(
                [b"d/kernel:0"][: int(has_weights)], "S10"
            )
            if has_weights:
                part.create_dataset("d/kernel:0", data=kernel)


def of_names(path):
    """A layer and the inner model that contains it."""
    name = f"+str({RUN})+"
    dense = of_layer(
        *("Dense", "x name=name y", "a"), units=3, activation="linear", use_bias=False
    )
    inner = functional(name, [of_input("a"), dense], "a", "x name=name y")
    inner |= {"name": name, "inbound_nodes": [[["i", 0, 0, {}]]]}
    write(path, functional("m", [of_input("i"), inner], "i", name), {name})


def of_nul(path):
    """A string that begins with NUL."""
    elu = of_layer("ELU", "e", alpha=f"\0000\000 is None or {RUN}")
    write(path, functional("m", [of_input("i"), elu], "i", "e"))


def of_keyword(path):
    """The key of a dict that looks like the config of a layer."""
    config = {"units": 3, f"x={RUN},y": 1}
    alpha = {"class_name": "Dense", "module": "keras.layers", "config": config}
    elu = of_layer("ELU", "e", alpha=alpha | {"registered_name": "Dense"})
    write(path, functional("m", [of_input("i"), elu], "i", "e"))


def of_loss_weights(path):
    """An item of an argument of `compile`."""
    dense = of_layer("Dense", "d", units=3, activation="linear", use_bias=False)
    sgd = {"class_name": "SGD", "config": {"name": "SGD", "learning_rate": 0.1}}
    training = {"optimizer_config": sgd, "loss": "mse", "metrics": []}
    training |= {"weighted_metrics": None, "sample_weight_mode": None}
    training |= {"loss_weights": [f"\0000\000 is None or {RUN}"]}
    model = functional("m", [of_input("i"), dense], "i", "d")
    write(path, model, {"d"}, training)


def of_module(path, module="subprocess"):
    """A dict in an argument that Keras does not read, in a file of Keras 3."""
    import keras

    i = keras.Input((3,))
    keras.Model(i, keras.layers.ELU(alpha=0.5)(i)).save(f"{path}.plain.keras")
    config = {"class_name": "Popen", "registered_name": None}
    config |= {"config": {"args": ["touch", CANARY]}}
    config |= {"module": module} if module else {}
    with (
        zipfile.ZipFile(f"{path}.plain.keras") as old,
        zipfile.ZipFile(path, "w") as new,
    ):
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                model = json.loads(data)
                *_, elu = model["config"]["layers"]
                elu["config"]["alpha"] = config
                data = json.dumps(model)
            new.writestr(name, data)


CARRIERS = {
    "names.h5": of_names,
    "nul.h5": of_nul,
    "keyword.h5": of_keyword,
    "loss_weights.h5": of_loss_weights,
    "module.keras": of_module,
}


def drawn(words, count):
    """Return a config with words in names, keys and values, `count` layers long.

    Most have only what Keras takes as it is, so that the file opens.
    """
    opens = words.choice(8) > 0
    names = [words() for _ in range(count + 2)]

    def clean(text):  # without lone surrogates, and not empty
        return text.encode(errors="ignore").decode() or "x" if opens else text

    names = [*map(clean, names)]
    names = [
        f"{n}{name}" if names.count(name) > 1 else name for n, name in enumerate(names)
    ]
    layers = [of_input(names[0])]
    for at, name in enumerate(names[1:-1]):
        value, key = words(), clean(words())
        config = {"class_name": words(), "module": "subprocess", "config": {key: value}}
        kinds = [
            *(("ELU", {"alpha": value}), ("ELU", {"alpha": {key: [value, 1.0]}})),
            *(("ELU", {"alpha": [[value], {key: {key: value}}]}), ("ReLU", {})),
            *(("ELU", {"alpha": [value] * 65}), ("Masking", {"mask_value": value})),
            *(("Masking", {"mask_value": {key: value}}), ("Dropout", {"rate": 0.5})),
            *(("Rescaling", {"scale": value, "offset": 0}), ("Dense", {"units": 3})),
            ("Dense", {"units": 3, "activation": "relu"}),
        ]
        refused = [
            *(("Dense", {"units": 3, key: value}), ("ELU", {"alpha": config})),
            *(("Activation", {"activation": value}), ("Softmax", {"axis": value})),
            ("Dense", {"units": 3, "kernel_regularizer": config}),
        ]
        kinds += [] if opens else refused
        kind, arguments = kinds[words.choice(len(kinds))]
        layers.append(of_layer(kind, name, names[at]))
        layers[-1]["config"] |= arguments  # a key may be "name"
    return functional(names[-1], layers, names[0], names[-2])


PLAIN = functional(
    "model", [of_input("i"), of_layer("ELU", "end", alpha=1.0)], "i", "end"
)


def drawn_training(words):
    """Return the arguments of `compile` as a file has them, with words in them."""

    def maybe(value):
        return value if words.choice(9) else words()

    def one_of(*values):
        return values[words.choice(len(values))]

    def named(class_name, **settings):
        return {"class_name": class_name, "config": {"name": maybe("it"), **settings}}

    def odd():
        if words.choice(6):
            return 0.1
        settings = {words(): words(), "name": words()}
        return {"class_name": maybe("Popen"), "module": "os", "config": settings}

    decay = {"initial_learning_rate": 0.1, "decay_steps": 9, "decay_rate": 0.5}
    rate = one_of(odd(), maybe(0.1), named("ExponentialDecay", **decay))
    optimizer = one_of(
        named("SGD", learning_rate=rate, momentum=0.5, nesterov=maybe(False)),
        named("Adam", learning_rate=rate, epsilon=maybe(1e-7), amsgrad=False),
        named("SGD", learning_rate=rate, **{maybe("momentum"): maybe(0.5)}),
    )
    huber = named("Huber", delta=maybe(odd()), reduction="auto")
    losses = [
        *("mse", maybe("mse"), {"end": maybe("mse")}, [maybe("mae")]),
        *(huber, named(maybe("Poisson"))),
    ]
    metrics = [
        *("mae", maybe("mae"), named("Precision", thresholds=maybe(odd()))),
        *(named("TopKCategoricalAccuracy", k=2), named("MeanMetricWrapper", fn="mse")),
    ]
    return {
        "optimizer_config": optimizer,
        "loss": one_of(*losses),
        "metrics": one_of([], [one_of(*metrics), one_of(*metrics)], {"end": ["mae"]}),
        "weighted_metrics": one_of(None, [one_of(*metrics)]),
        "sample_weight_mode": None,
        "loss_weights": one_of(None, [maybe(1.0)], {maybe("end"): maybe(2.0)}),
    }


class Words:
    """Draws words with a generator of random numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def choice(self, count):
        return self.random.randrange(count)

    def __call__(self):
        parts = self.random.choices(WORDS, k=self.random.choice((1, 1, 2)))
        return "".join(parts) if self.random.random() < 0.7 else "plain"


def foreign(text):
    """Return the names in code that are neither assigned in it, nor Keras's or ours."""
    tree = ast.parse(text)
    nodes = [*ast.walk(tree)]
    ours = {"keras", "layers", "ops", "np", "float", "range", "slice"}
    ours |= {"CONSTANTS", "dict", "pathlib", "__file__"}  # of the file of constants
    ours |= {
        x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
    }
    ours |= {x.name for x in nodes if isinstance(x, ast.FunctionDef)}
    ours |= {x.arg for x in nodes if isinstance(x, ast.arg)}
    read = {x.id for x in nodes if isinstance(x, ast.Name)}
    kinds = ast.Lambda, ast.Starred, ast.ListComp, ast.Await, ast.ClassDef
    odd = {type(x).__name__ for x in nodes if isinstance(x, kinds)}
    modules = {
        *(x.module for x in nodes if isinstance(x, ast.ImportFrom)),
        *(n.name for x in nodes if isinstance(x, ast.Import) for n in x.names),
    }
    return read - ours | odd | modules - {"keras", "numpy", "pathlib"}


def names_of(model):
    """Return the names of a model and its layers."""
    return [model.name, *(each.name for each in model.layers)]


def drawing(words, most, trains):
    """Return what to write to a file: the config of a model, and of its training."""
    if trains:
        return PLAIN, drawn_training(words)
    return drawn(words, 1 + words.choice(most)), None


def problem(folder, config, training):
    """Write the code of a file; return what is wrong with it, or how it ended."""
    try:
        return outcome(folder, config, training)
    except Exception as error:  # not one of ours
        return f"{type(error).__name__}: {error}"[:300], "crashed"


def outcome(folder, config, training):
    """Return the same; a fault of ours raises any error."""
    import keras

    import keras_policies
    from keras_policies._common.arguments import unsaved

    path = pathlib.Path(folder, "model.h5" if training else "model.json")
    if training:
        write(path, config, training=training)
    else:
        stamps = {"keras_version": "2.15.0", "backend": "tensorflow"}
        path.write_text(json.dumps({**config, **stamps}))
    try:
        model = keras_policies.load_model(path)
    except ValueError:
        return "", "not opened"
    compiles = bool(model.compiled)
    try:
        constants = pathlib.Path(folder, "model.npz")
        text = keras_policies.to_source(model, constants=constants, compile=compiles)
    except ValueError as error:
        return "", f"refused: {getattr(error, 'code', 'no code')}"
    if names := foreign(text):
        return f"foreign names: {names}", "wrong"
    namespace = {"__name__": "model", "__file__": str(path)}
    exec(compile(text, "model.py", "exec"), namespace)
    built = namespace["build_model"]()
    written = {
        x.value for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Constant)
    }
    old, new = names_of(model), names_of(built)
    lost = [a for a, b in zip(old, new, strict=True) if a != b and a in written]
    if lost:
        return f"other names: {lost}", "wrong"
    huber, short = keras.losses.Huber, keras.losses.Huber.get_config
    # A model that was opened has the whole config, the other one that of Keras.
    with mock.patch.object(
        huber, "get_config", lambda x: {**short(x), **unsaved(x, short(x))}
    ):
        configs = [x.get_compile_config() for x in (model, built) if compiles]
    if configs[:1] != configs[1:]:
        return f"other training: {text}", "wrong"
    return "", "compiled" if compiles else "written"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    help_text = "put the strings into what `compile` is given instead"
    parser.add_argument("--training", action="store_true", help=help_text)
    options = parser.parse_args()
    import os

    warnings.simplefilter("ignore")
    counts, wrong = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed in range(options.seed, options.seed + options.inputs):
            words = Words(seed)
            reason, end = problem(folder, *drawing(words, 6, options.training))
            if os.path.exists(CANARY):
                os.remove(CANARY)
                reason = "IT RAN"
            if reason:
                wrong += 1
                print(seed, reason, flush=True)
            counts[end] = counts.get(end, 0) + 1
        os.chdir("/")
    print(counts, f"{wrong} wrong")


if __name__ == "__main__":
    main()
