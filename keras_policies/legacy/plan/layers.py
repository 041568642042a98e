"""Converts configs of legacy layers and models: dicts in, new dicts of Keras 3 out."""

import contextlib
import dataclasses
from typing import Any, NamedTuple

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base import configs, programs
from keras_policies.legacy.base.configs import layer_name
from keras_policies.legacy.base.errors import (
    LegacyModelError,
    LimitError,
    attempt,
    located,
)
from keras_policies.legacy.base.outcomes import LeftOut
from keras_policies.legacy.base.programs import Program
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import (
    arguments,
    classes,
    fixed_training,
    graph,
    op_layers,
    policies,
    preprocessing,
    replicas,
    sequential,
    wrappers,
)
from keras_policies.legacy.plan.classes import KerasClass
from keras_policies.legacy.plan.report import (
    Arguments,
    Converted,
    Converting,
    Options,
    Rebuilder,
    Reconstruction,
    Report,
    joined,
)

# Keys under which a layer's config holds the config of another layer.
INNER_LAYERS = fixed_training.INNER


class Place(NamedTuple):
    """Where a layer is: what holds there, and its traced layer, if any."""

    options: Options
    prefix: str = ""  # the path of the model around it, with a slash: "encoder/"
    is_root: bool = False  # whose name is not in the paths of its layers
    rebuilder: Rebuilder | None = None
    number: int = 0  # of the traced layer that the rebuilder knows


def _inside(
    options: Options, prefix: str, rebuilder: Rebuilder | None, number: int | None
) -> Place:
    known = rebuilder if number is not None else None
    return Place(options, prefix, rebuilder=known, number=number or 0)


def keras_model(
    written: Config, options: Options, rebuilder: Rebuilder | None = None
) -> tuple[Config, Report]:
    """Return the config, or raise LegacyModelError if a layer cannot be converted."""
    budget.runs(written)
    place = Place(options, is_root=True, rebuilder=rebuilder)
    converted, reported = _collected(_converted_layer(written, place))
    budget.runs(converted)
    return converted, reported


def traced_layer(
    written: Config,
    options: Options,
    rebuilder: Rebuilder,
    number: int | None,
    prefix: str,
) -> tuple[Config, Report] | None:
    """Return the config of a layer inside a rebuilt one, which may have a number."""
    place = _inside(options, prefix, rebuilder, number)
    converted, reported = _collected(_converted_layer(written, place))
    return None if reported.is_lacking and number is not None else (converted, reported)


def _collected(converting: Converted) -> tuple[Config, Report]:
    """Return the config that a converter returns, and all that it yields as one."""
    parts = [Report()]
    while True:
        try:
            parts.append(next(converting))
        except StopIteration as end:
            return end.value, joined(parts)


def _converted_layer(
    written: Any, place: Place, called: Arguments | None = None
) -> Converted:
    """Return the config of a layer, or of a program if its class is missing."""
    options, prefix, is_root, rebuilder, number = place
    if rebuilder is None:
        return (yield from _keras_layer(written, place))
    path = "" if is_root else budget.layer_path(prefix, configs.name_of(written))
    is_replaced = is_root and (options.by_function or options.signature is not None)
    is_custom = classes.is_registered(written)
    if number in rebuilder.vocabularies:
        learned = {**options.vocabularies, path: rebuilder.vocabularies[number]}
        options = dataclasses.replace(options, vocabularies=learned)
        place = place._replace(options=options)
    problem: LegacyModelError | None = None
    converted: Config = {}
    reported = Report()
    try:
        if not is_replaced:
            converted, reported = _collected(_keras_layer(written, place))
    except LimitError:
        raise
    except LegacyModelError as error:
        problem = error
    has_config = is_custom or written.get("config") is not None
    if problem or is_replaced or reported.is_lacking or not has_config:
        # A list of layers makes a better error message than the model's function.
        is_listed = configs.is_graph(written) and not (is_custom or is_replaced)
        rebuilt = None
        with attempt(LegacyModelError) if is_listed else contextlib.nullcontext():
            rebuilt = rebuilder.reconstruct(written, number, path, called)
        if rebuilt is not None and not (is_listed and rebuilt[1].is_unusable):
            converted, reported = rebuilt
        elif problem is not None:
            raise problem
    yield reported
    return converted


def _keras_layer(written: Any, place: Place) -> Converted:
    if not isinstance(written, dict) or not isinstance(written.get("class_name"), str):
        text = f"corrupt: expected the config of a layer, found {str(written)[:80]!r}."
        raise LegacyModelError(text)
    class_name, config = written["class_name"], written.get("config") or {}
    if isinstance(config, list):  # a Sequential, up to Keras 2.2.2
        config = {"name": written.get("name") or "sequential", "layers": config}
    name = configs.own_name({**written, "config": config})
    path = budget.layer_path(place.prefix, name or class_name)
    with located(layer=None if place.is_root else path, code="KP303"):
        if configs.is_graph(written):
            return (yield from _model(class_name, config, place, path))
        if place.rebuilder is not None:
            traced = place.rebuilder.traced.layers[place.number]
            yield Report(elsewhere=traced.variables)
        if op_layers.is_op(class_name):
            if not op_layers.is_known(class_name, config):
                op = op_layers.name_of_op(class_name, config)
                yield Report(missing_ops=((op, path),))
            return op_layers.op_call_config(class_name, config, path)
        if class_name in graph.ADDED:
            description = f"{path!r}, a loss or a metric of a tensor"
            part = LeftOut(description, "KP604")
            yield Report(not_converted=(part,), loss_only=(path,))
            return {}
        layer = _layer(class_name, name, dict(config), place.options, path)
        return (yield from layer)


def _model(class_name: str, config: Config, place: Place, path: str) -> Converted:
    options, _, is_root, rebuilder, number = place
    layers: list[Config] = []
    below = "" if is_root else f"{path}/"
    if below:
        yield Report(models=(path,))
    numbers: list[int | None] = [None] * len(config["layers"])
    called_on: sequential.Shapes = []
    if rebuilder is not None:
        traced = rebuilder.traced
        named = [*graph.numbered(traced, number, config["layers"])]
        numbers = [child for _, child in named]
        called_on = graph.called_on(traced, number)
        config = {**config, "layers": [layer for layer, _ in named]}
    if config.get("trainable") is False:
        config = {**config, "layers": [*map(_frozen, config["layers"])]}
    is_functional = "input_layers" in config
    left_out: set[str] = set()
    if is_functional:
        loss_only = graph.only_for_losses(config)
        config, cuts = replicas.on_whole_batch(config)
        left_out = loss_only | cuts
        parted = (
            f"the parts of the batch on which {path!r} called its layers, so that "
            "batch normalization takes the statistics of the whole batch"
        )
        yield Report(
            not_converted=(LeftOut(parted, "KP605"),)
            if cuts and replicas.takes_statistics(config)
            else (),
            rebuilt={f"{below}{name}": "parts of the batch" for name in cuts},
            loss_only=tuple(f"{below}{name}" for name in loss_only),
        )
    called_with = graph.arguments(config)
    items = zip(config["layers"], numbers, called_with, strict=True)
    for layer, child, called in items:
        if left_out and configs.name_of(layer) in left_out:
            layers.append({})
        else:
            inside = _inside(options, below, rebuilder, child)
            layers.append((yield from _converted_layer(layer, inside, called)))
    is_registered = classes.registered_name(class_name) is not None
    is_missing = class_name not in classes.GRAPHS and not is_registered
    if rebuilder is not None and is_functional and is_missing:
        entry = Reconstruction(class_name, ())
        yield Report(reconstructions={path if below else "": entry})
        class_name = "Functional"
    cls = yield from classes.keras_class(class_name, path, is_graph=True)
    name = {"name": layer_name(config["name"])} if config.get("name") else {}
    if not is_functional:
        return sequential.converted(cls, config, name, layers, called_on)
    extra: Config = {}
    if not cls.is_stock:  # a subclass of Model may take arguments of its own
        graph_keys = ("layers", "input_layers", "output_layers", "trainable")
        extra = {key: value for key, value in config.items() if key not in graph_keys}
    return cls.with_config(extra | name | graph.functional_graph(config, layers))


def _frozen(layer: Config) -> Config:
    """Return the config of a layer in a frozen model: tf.keras also froze it."""
    config = configs.settings(layer)
    trains = config and (configs.is_graph(layer) or config.get("trainable"))
    return {**layer, "config": {**config, "trainable": False}} if trains else layer


def _layer(
    class_name: str, name: Any, config: Config, options: Options, path: str
) -> Converted:
    """Return the config of a layer that is neither a model nor an op."""
    if class_name in wrappers.QUANTIZED and path in options.vocabularies:
        return (yield from _quantized(class_name, config, options, path))
    namesakes = options.namesakes
    cls = yield from classes.keras_class(class_name, path, namesakes=namesakes)
    if class_name == "InputLayer":  # its dtype is that of a tensor, not a policy
        dtype = {"dtype": config.get("dtype") or "float32"}
    else:
        dtype = yield from _dtype(config, options, path)
    if cls.is_stock and cls.name == "BatchNormalization":
        dtype = {key: policies.with_float32_variables(dtype[key]) for key in dtype}
    policy = dtype.get("dtype")
    if cls.is_stock:
        program = yield from _program(cls.name, config, policy, path)
        if program is not None:
            name = str(config.get("name") or cls.name.lower())
            return programs.call_config(name, path, program, policy)
    converted: Config = {k: _policy_argument(cls, dtype[k], config) for k in dtype}
    if cls.is_stock:
        config = {**arguments.UNRECORDED.get(class_name, {}), **config}
        if cls.name == "Bidirectional":
            config = arguments.both_ways(config)
    accepted = yield from _accepted(class_name, cls, config, options, path)
    for key, value in accepted.items():
        if key != "dtype":
            converted[key] = yield from _argument(key, value, options, path, dtype)
    if isinstance(converted.get("name"), str):
        converted["name"] = layer_name(converted["name"])
    if not cls.is_stock:
        named = {"name": layer_name(name)} if isinstance(name, str) else {}
        return cls.with_config(converted) | named
    if cls.name == "TimeDistributed" and _learns_statistics(converted.get("layer")):
        what = f"the statistics of all steps together in {path!r}"
        part = LeftOut(f"{what}: each step has its own", "KP605")
        yield Report(not_converted=(part,))
    if cls.name == "TimeDistributed" and programs.is_call(converted.get("layer")):
        step = {**converted["layer"]["config"], "name": f"{converted['name']}_step"}
        converted["layer"] = {**converted["layer"], "config": step}
    if class_name in ("LocallyConnected1D", "LocallyConnected2D"):
        from keras_policies.legacy.plan import layers_as_programs

        program = layers_as_programs.locally_connected(config, converted)
        return programs.call_config(converted["name"], path, program, policy)
    if cls.name == "BatchNormalization":
        converted["axis"] = arguments.one_axis(converted.get("axis", -1))
    return (yield from preprocessing.with_state(cls, converted, options, path))


def _program(
    name: str, config: Config, policy: PolicyLike | None, path: str
) -> Converting[Program | None]:
    """Return the program of a layer that becomes `keras.ops` calls, or None."""
    if name == "Lambda":
        from keras_policies.legacy.plan import lambdas

        program = lambdas.program_of(config)
        if program is not None:
            yield Report(rebuilt={path: "its bytecode"})
        return program
    if name in ("Resizing", "UpSampling2D"):
        from keras_policies.legacy.plan import layers_as_programs

        return layers_as_programs.resizing(name, config, policy)
    return None


def _quantized(
    class_name: str, config: Config, options: Options, path: str
) -> Converted:
    learned = options.vocabularies[path]
    inner, program = wrappers.program(class_name, config, learned)
    layer = None
    if inner is not None:
        layer = yield from _keras_layer(inner, Place(options, f"{path}/"))
    policy = (yield from _dtype(config, options, path)).get("dtype")
    return programs.call_config(str(config["name"]), path, program, policy, layer)


def _accepted(
    class_name: str, cls: KerasClass, config: Config, options: Options, path: str
) -> Converted:
    if not cls.is_stock:
        base, named = classes.stock_base(cls.name)
        return (yield from arguments.subclass_arguments(base, named, config, path))
    if cls.name == "Lambda":
        from keras_policies.legacy.plan import lambdas

        return (yield from lambdas.arguments(config, options, path))
    return (yield from arguments.stock_arguments(cls.name, class_name, config, path))


def _learns_statistics(converted: Any) -> bool:
    """Return whether a layer is or holds a BatchNormalization that is trained."""
    if isinstance(converted, list | tuple):
        return any(map(_learns_statistics, converted))
    config = configs.settings(converted) if isinstance(converted, dict) else {}
    if config and converted.get("class_name") == "BatchNormalization":
        return bool(config.get("trainable", True))
    return any(_learns_statistics(config[key]) for key in INNER_LAYERS if key in config)


def _dtype(config: Config, options: Options, path: str) -> Converted:
    """Return `{"dtype": policy}` for a layer, or nothing where none is recorded."""
    written = config.get("dtype")
    if written is None:
        return {}
    yield Report(dtypes={path: written})
    try:
        return {"dtype": options.policy_of(written)}
    except (TypeError, ValueError) as error:
        raise LegacyModelError(f"its dtype is {written!r}: {error}") from error


def _policy_argument(cls: KerasClass, policy: Any, config: Config) -> Any:
    """Return a policy; Keras cannot save the object for classes without get_config."""
    if isinstance(policy, str | dict) or getattr(policy, "is_deferred", False):
        return policy
    stock = getattr(keras.layers, cls.name, None) if cls.is_stock else None
    found = stock or keras_names.registered(cls.registered_name)
    if getattr(found, "get_config", None) is not keras.Layer.get_config:
        return policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policy = policy[layer_name(str(config.get("name") or ""))]
    return keras.dtype_policies.serialize(policy)


def _argument(
    key: str, value: Any, options: Options, path: str, dtype: Config
) -> Converting[Any]:
    """Return an argument, with the layers, initializers and the like converted."""
    is_listing = isinstance(value, list | tuple)
    if is_listing and (key in INNER_LAYERS or any(map(configs.is_model, value))):
        items = []
        for item in value:
            items.append((yield from _argument(key, item, options, path, dtype)))
        return items
    if key.endswith("activation") and isinstance(value, str):
        return (yield from arguments.keras_activation(value, dtype, path))
    for ending, module in arguments.MODULES.items():
        if key.endswith(ending):
            return (yield from arguments.inner_object(module, value, options, path))
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    is_activation = key.endswith("activation")
    if is_activation and not classes.is_in("keras.layers", value["class_name"]):
        name = str(value["class_name"])
        if name == "function" and value.get("module") == "builtins":
            return (yield from classes.own_function(str(value["config"]), path))
        if name == "function" or name.startswith("__"):  # as "__lambda__"
            return value
        custom = classes.registered_name(name)
        if custom is None:
            yield Report(missing=((name, path),))
        return configs.keras_object(None, custom or name, value.get("config"), custom)
    # A user's class has its models under any key.
    if key in INNER_LAYERS or is_activation or configs.is_model(value):
        inner = yield from _keras_layer(value, Place(options, f"{path}/"))
        if is_activation:
            yield Report(activations=((value["class_name"], path),))
        return inner
    return value
