"""Turns the configs of legacy layers and models into configs of Keras 3.

Dicts in, new dicts out: nothing is built here, and nothing is changed in place.
`Conversion` collects what was found on the way, so that one error can name every
class that is missing.
"""

import dataclasses

from keras_policies.legacy import arguments, classes, graph, policies
from keras_policies.legacy.errors import LegacyModelError

# Keys under which a layer's config holds the config of another layer.
INNER_LAYERS = "layer", "backward_layer", "forward_layer", "cell", "cells", "layers"
INNER_MODULES = {
    "_initializer": "keras.initializers",
    "_regularizer": "keras.regularizers",
    "_constraint": "keras.constraints",
}


@dataclasses.dataclass
class Conversion:
    """What to convert with, and what was found on the way.

    Args:
        path: str, the file, for errors.
        replace: `(name, new)`: layers whose policy has this name get `new`; or None.
        safe_mode: bool, whether code in the file is refused.
        config: dict, the finished config of the model.
        missing: `{class name: [layer, ...]}`, classes that nothing is known of.
        dtypes: `{layer path: dtype as written}`.
        notes: list of str, what one should know of the model's file.
    """

    path: str
    replace: tuple | None = None
    safe_mode: bool = True
    config: dict = dataclasses.field(default_factory=dict)
    missing: dict = dataclasses.field(default_factory=dict)
    dtypes: dict = dataclasses.field(default_factory=dict)
    notes: list = dataclasses.field(default_factory=list)

    def raise_if_missing(self):
        """Raise one error that names every class that is missing, and where."""
        if not self.missing:
            return
        lines = [
            f"  {name} (layers {', '.join(map(repr, layers))})"
            for name, layers in sorted(self.missing.items())
        ]
        first = next(iter(sorted(self.missing)))
        raise LegacyModelError(
            f"{self.path}: classes that Keras 3 does not have:\n"
            + "\n".join(lines)
            + f"\nPass them as custom_objects={{{first!r}: {first}, ...}}, or decorate "
            "them with @keras.saving.register_keras_serializable() and import them."
        )


def name_of(config):
    """Return the name of a layer or model from its config."""
    inner = config.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return str(config.get("name") or name or config.get("class_name"))


def is_graph(config):
    """Return whether a model's config lists layers (Sequential or Functional)."""
    inner = config.get("config")
    return isinstance(inner, list) or (
        isinstance(inner, dict) and isinstance(inner.get("layers"), list)
    )


def _checked(config, where):
    if not isinstance(config, dict) or not isinstance(config.get("class_name"), str):
        raise LegacyModelError(
            f"{where}: corrupt: expected the config of a layer, found "
            f"{str(config)[:80]!r}."
        )
    return config["class_name"], config.get("config")


def convert(config, conversion, prefix="", is_root=False):
    """Return the Keras 3 config of a legacy layer or model.

    Args:
        config: dict with `class_name` and `config`, as written.
        conversion: `Conversion`.
        prefix: str, the path of what is around it, `"encoder/"`.
        is_root: bool; the layers of the root go by their names alone.
    """
    class_name, inner = _checked(config, conversion.path)
    if not is_graph(config):
        return _convert_layer(class_name, dict(inner or {}), conversion, prefix)
    if isinstance(inner, list):  # a Sequential, up to Keras 2.2.2
        inner = {"name": "sequential", "layers": inner}
    path = f"{prefix}{inner.get('name') or class_name}"
    inner_prefix = "" if is_root else f"{path}/"
    layers = [convert(layer, conversion, inner_prefix) for layer in inner["layers"]]
    found = classes.find(class_name, conversion, path)
    return {**found, "config": _model_config(inner, layers, found, conversion, path)}


def _is_stock(found):
    return found["registered_name"] is None


def _without_dropped(class_name, config, conversion, path):
    """Return the config without the arguments that Keras 3 has dropped."""
    renamed = arguments.RENAMED.get(class_name, {})
    dropped = {**arguments.COMMON, **arguments.DROPPED.get(class_name, {})}
    kept = {}
    for name, value in config.items():
        if name in renamed:
            kept[renamed[name]] = value
        elif name not in dropped:
            kept[name] = value
        elif dropped[name] is not arguments.ANY and value not in dropped[name]:
            raise LegacyModelError(
                f"{conversion.path}: the layer {path!r} ({class_name}) was made with "
                f"{name}={value!r}, which Keras 3 cannot do. Pass a class of your own "
                f"as custom_objects={{{class_name!r}: ...}}."
            )
    return kept


def _convert_dtype(config, conversion, path):
    """Return `{"dtype": …}` for a layer, or nothing where none is recorded."""
    if config.get("dtype") is None:
        return {}
    written = config["dtype"]
    conversion.dtypes[path] = written
    replace = conversion.replace
    if replace is not None and policies.name_of(written) == replace[0]:
        return {"dtype": replace[1]}
    try:
        return {"dtype": policies.plain(written)}
    except (TypeError, ValueError) as error:
        raise LegacyModelError(
            f"{conversion.path}: the layer {path!r} has the dtype {written!r}: {error}"
        ) from error


def _convert_value(key, value, conversion, path):
    """Return an argument: inner layers converted, initializers and the like found."""
    if key in INNER_LAYERS and isinstance(value, list | tuple):
        return [_convert_value(key, item, conversion, path) for item in value]
    if key.endswith("activation") and isinstance(value, str):
        return _activation(value, conversion, path)
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    if key in INNER_LAYERS:
        return convert(value, conversion, f"{path}/")
    for ending, module in INNER_MODULES.items():
        if key.endswith(ending):
            return _convert_inner(module, value, conversion)
    return value


def _activation(name, conversion, path):
    """Return an activation by name: the user's own function first."""
    custom = classes.registered_name(name)
    if custom is None and name in arguments.CHANGED_ACTIVATIONS:
        custom = arguments.CHANGED_ACTIVATIONS[name]
        conversion.notes.append(
            f"the layer {path!r} uses the {name} of tf.keras, which Keras 3 no longer "
            "has: a file of this model opens only after `import keras_policies`"
        )
    if custom is None:
        return name
    function = {"module": "builtins", "class_name": "function", "config": custom}
    return {**function, "registered_name": custom}


def _convert_inner(module, value, conversion):
    """Return the config of an initializer, a regularizer or a constraint."""
    class_name = str(value["class_name"])
    if classes.registered_name(class_name) is not None:
        return value
    config = dict(value.get("config") or {})
    for name in arguments.INITIALIZER_DROPPED:
        config.pop(name, None)
    known = {"module": module, "class_name": class_name}
    return {**known, "config": config, "registered_name": None}


def _convert_layer(class_name, config, conversion, prefix):
    path = f"{prefix}{config.get('name') or class_name}"
    found = classes.find(class_name, conversion, path)
    if conversion.safe_mode and _is_stock(found):
        _refuse_code(class_name, config, conversion, path)
    kept = _without_dropped(found["class_name"], config, conversion, path)
    converted = {
        key: _convert_value(key, value, conversion, path)
        for key, value in kept.items()
        if key != "dtype"
    }
    if class_name == "InputLayer":  # its dtype is no policy, but that of a tensor
        converted |= {"dtype": config.get("dtype") or "float32"}
    else:
        converted |= _convert_dtype(config, conversion, path)
    if found["class_name"] == "BatchNormalization" and _is_stock(found):
        converted["axis"] = _one_axis(converted, conversion, path)
    return {**found, "config": converted}


def _is_code(value, kind):
    """Return whether a function in a Lambda's config is bytecode."""
    is_tagged = isinstance(value, dict) and value.get("class_name") == "__lambda__"
    return kind == "lambda" or is_tagged


def _refuse_code(class_name, config, conversion, path):
    """Raise if a layer's function is bytecode in the file."""
    if class_name == "Lambda" and any(
        _is_code(config.get(name), config.get(f"{name}_type"))
        for name in ("function", "output_shape", "mask")
    ):
        raise LegacyModelError(
            f"{conversion.path}: the Lambda layer {path!r} holds code, which is not "
            "run from a file. If you trust where it came from, pass safe_mode=False."
        )


def _one_axis(config, conversion, path):
    axis = config.get("axis", -1)
    if not isinstance(axis, list | tuple):
        return axis
    if len(axis) != 1:
        raise LegacyModelError(
            f"{conversion.path}: the layer {path!r} normalizes over the axes "
            f"{list(axis)}; BatchNormalization of Keras 3 takes one."
        )
    return axis[0]


def _model_config(config, layers, found, conversion, path):
    """Return the config of a Sequential or Functional model from its layers'."""
    name = {"name": config["name"]} if config.get("name") else {}
    if "input_layers" not in config:
        return {**name, "layers": _with_input(config["layers"], layers)}
    own = {}
    if not _is_stock(found):  # a subclass of Model may take arguments of its own
        graph_keys = ("layers", "input_layers", "output_layers", "trainable")
        own = {key: value for key, value in config.items() if key not in graph_keys}
    where = f"{conversion.path}: {path}"
    return own | name | graph.convert(config, layers, where)


def _with_input(legacy, layers):
    """Return the layers of a Sequential, an InputLayer first if the shape is known."""
    first = legacy[0] if legacy else {}
    while is_graph(first) and first["config"]:
        inner = first["config"]
        first = (inner if isinstance(inner, list) else inner["layers"])[0]
    config = first.get("config") or {}
    shape = config.get("batch_input_shape")
    if shape is None or legacy[0]["class_name"] == "InputLayer":
        return layers
    dtype = policies.variable_dtype(config.get("dtype"))
    name = f"{config.get('name', 'first')}_input"
    given = {"batch_shape": list(shape), "dtype": dtype, "name": name}
    known = {"module": "keras.layers", "class_name": "InputLayer"}
    return [{**known, "config": given, "registered_name": None}, *layers]
