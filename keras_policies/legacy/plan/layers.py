"""Turns the configs of legacy layers and models into configs of Keras 3.

Dicts in, new dicts out: nothing is built here, and nothing is changed in place.
`Conversion` collects what was found on the way, so that one error can name every
class that is missing.
"""

import dataclasses
from collections.abc import Mapping

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.names import layer_name
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.ops import layer as op_layers
from keras_policies.legacy.plan import (
    activations,
    arguments,
    classes,
    graph,
    lambdas,
    lookups,
    policies,
)

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
        vocabularies: `{layer path: Vocabulary}`.
        config: dict, the finished config of the model.
        missing: `{class name: [layer, ...]}`, classes that nothing is known of.
        missing_ops: `{function: [layer, ...]}`, TensorFlow functions likewise.
        without_vocabulary: `{layer path: reason}`, lookup layers that would be empty.
        dtypes: `{layer path: dtype as written}`.
        code: `{layer path: reason}`, Lambda layers whose code is not run.
        functions: `{name: function}`, those of Lambda layers that are code in the file.
        left_out: list of str, layers that Keras 3 does not have, nor needs to predict.
        notes: list of str, what one should know of the model's file.
    """

    path: str
    replace: tuple | None = None
    safe_mode: bool = True
    vocabularies: Mapping = dataclasses.field(default_factory=dict)
    config: dict = dataclasses.field(default_factory=dict)
    missing: dict = dataclasses.field(default_factory=dict)
    missing_ops: dict = dataclasses.field(default_factory=dict)
    without_vocabulary: dict = dataclasses.field(default_factory=dict)
    dtypes: dict = dataclasses.field(default_factory=dict)
    code: dict = dataclasses.field(default_factory=dict)
    functions: dict = dataclasses.field(default_factory=dict)
    left_out: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)

    def policy_of(self, written):
        """Return what a `dtype` as written becomes; see `policies.plain`."""
        if self.replace is not None and policy_name(written) == self.replace[0]:
            return self.replace[1]
        return policies.plain(written)

    def raise_if_missing(self):
        """Raise one error that names every class or op that is missing, and where."""
        if self.code:
            raise LegacyModelError("\n".join(self.code.values()))
        if self.missing_ops:
            raise LegacyModelError(
                f"{self.path}: TensorFlow functions without a counterpart in keras.ops:"
                f"\n{_listed(self.missing_ops)}\nBuild the model in code, and call "
                f"keras_policies.load_weights(model, {self.path!r})."
            )
        if self.without_vocabulary:
            lines = (f"  {p!r}: {why}" for p, why in self.without_vocabulary.items())
            raise LegacyModelError(
                f"{self.path}: what these layers have learned is missing, so they "
                "would be empty:\n" + "\n".join(lines)
            )
        if not self.missing:
            return
        first = next(iter(sorted(self.missing)))
        raise LegacyModelError(
            f"{self.path}: classes that Keras 3 does not have:\n"
            f"{_listed(self.missing)}\n"
            f"Pass them as custom_objects={{{first!r}: {first}, ...}}, or decorate "
            "them with @keras.saving.register_keras_serializable() and import them."
        )


def _listed(missing):
    return "\n".join(
        f"  {name} (layers {', '.join(map(repr, layers))})"
        for name, layers in sorted(missing.items())
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
    if not configs.is_graph(config):
        return _convert_layer(class_name, dict(inner or {}), conversion, prefix)
    if isinstance(inner, list):  # a Sequential, up to Keras 2.2.2
        inner = {"name": "sequential", "layers": inner}
    path = configs.path(prefix, inner.get("name") or class_name)
    inner_prefix = "" if is_root else f"{path}/"
    layers = [convert(layer, conversion, inner_prefix) for layer in inner["layers"]]
    found = classes.find(class_name, conversion, path, is_graph=True)
    return {**found, "config": _model_config(inner, layers, found, conversion, path)}


def _is_stock(found):
    return found["registered_name"] is None


def _convert_dtype(config, conversion, path):
    """Return `{"dtype": …}` for a layer, or nothing where none is recorded."""
    if config.get("dtype") is None:
        return {}
    written = config["dtype"]
    conversion.dtypes[path] = written
    try:
        return {"dtype": conversion.policy_of(written)}
    except (TypeError, ValueError) as error:
        raise LegacyModelError(
            f"{conversion.path}: the layer {path!r} has the dtype {written!r}: {error}"
        ) from error


def _convert_value(key, value, conversion, path, dtype):
    """Return an argument: inner layers converted, initializers and the like found."""
    if key in INNER_LAYERS and isinstance(value, list | tuple):
        return [_convert_value(key, item, conversion, path, dtype) for item in value]
    if key.endswith("activation") and isinstance(value, str):
        return activations.convert(value, dtype, conversion.notes, path)
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    if key in INNER_LAYERS:
        return convert(value, conversion, f"{path}/")
    for ending, module in INNER_MODULES.items():
        if key.endswith(ending):
            return _convert_inner(module, value, conversion, path)
    return value


def _convert_inner(module, value, conversion, path):
    """Return the config of an initializer, a regularizer or a constraint."""
    class_name = str(value["class_name"])
    if classes.registered_name(class_name) is not None:
        return value
    if not classes.is_in(module, class_name):
        conversion.missing.setdefault(class_name, []).append(path)
    config = dict(value.get("config") or {})
    for name in arguments.INITIALIZER_DROPPED:
        config.pop(name, None)
    known = {"module": module, "class_name": class_name}
    return {**known, "config": config, "registered_name": None}


def _convert_layer(class_name, config, conversion, prefix):
    path = configs.path(prefix, config.get("name") or class_name)
    if _is_op(class_name):
        return _convert_op(class_name, config, conversion, path)
    if class_name in graph.ADDED:
        conversion.left_out.append(f"{path!r}, a loss or a metric of a tensor")
        return {}
    found = classes.find(class_name, conversion, path)
    if class_name == "Lambda" and _is_stock(found):
        kept = lambdas.convert(config, conversion, path)
    elif _is_stock(found):
        where = f"{conversion.path}: the layer {path!r}"
        kept = arguments.convert(found["class_name"], config, where)
        left_out = arguments.left_out(found["class_name"], config)
        conversion.left_out += [f"{what} of {path!r}" for what in left_out]
    else:
        kept = arguments.of_custom(config)
    if class_name == "InputLayer":  # its dtype is no policy, but that of a tensor
        dtype = {"dtype": config.get("dtype") or "float32"}
    else:
        dtype = _convert_dtype(config, conversion, path)
    converted = dtype | {
        key: _convert_value(key, value, conversion, path, dtype)
        for key, value in kept.items()
        if key != "dtype"
    }
    if isinstance(converted.get("name"), str):
        converted["name"] = layer_name(converted["name"])
    if found["class_name"] == "BatchNormalization" and _is_stock(found):
        converted["axis"] = _one_axis(converted, conversion, path)
    if _is_stock(found):
        return lookups.convert(found, converted, conversion, path)
    return {**found, "config": converted}


def _is_op(class_name):
    is_ours = classes.registered_name(class_name) is None
    return class_name in op_layers.CLASSES and is_ours


def _convert_op(class_name, config, conversion, path):
    if not op_layers.is_known(class_name, config):
        op = op_layers.name_of_op(class_name, config)
        conversion.missing_ops.setdefault(op, []).append(path)
    return op_layers.op_call_config(class_name, config, path)


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
    name = {"name": layer_name(config["name"])} if config.get("name") else {}
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
    while configs.inner_layers(first):
        first = configs.inner_layers(first)[0]
    config = first.get("config") or {}
    shape = config.get("batch_input_shape")
    if shape is None or legacy[0]["class_name"] == "InputLayer":
        return layers
    dtype = policies.variable_dtype(config.get("dtype"))
    name = layer_name(f"{config.get('name', 'first')}_input")
    given = {"batch_shape": list(shape), "dtype": dtype, "name": name}
    known = {"module": "keras.layers", "class_name": "InputLayer"}
    return [{**known, "config": given, "registered_name": None}, *layers]
