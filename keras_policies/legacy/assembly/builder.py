"""Builds the objects of a plan's config: each layer is created once, and called once.

Keras makes its layers. Programs, calls of ops and of code, and layers that Keras 3
computes otherwise than tf.keras, become nodes, which decide at their first call what
the model has in their place. A graph calls its nodes in topological order.
"""

import types
from collections.abc import Sequence
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies.legacy.assembly import graphs, own_classes
from keras_policies.legacy.assembly.calls import LambdaCall, OpCall
from keras_policies.legacy.assembly.keras_differences import forms, masks
from keras_policies.legacy.assembly.keras_differences.stock_layer import (
    OverTime,
    StockLayer,
)
from keras_policies.legacy.assembly.nodes import Node, layer_of
from keras_policies.legacy.assembly.programs import ProgramCall
from keras_policies.legacy.assembly.text_cuts import TextCuts, takes_texts
from keras_policies.legacy.base import programs
from keras_policies.legacy.base.configs import is_graph, is_program
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan import op_layers
from keras_policies.legacy.plan.plan import Plan

STOCK = "keras.layers"
OF_GRAPHS = "layers", "input_layers", "output_layers"


class Builder:
    """Makes nodes from configs, and lists what programs created."""

    def __init__(self, plan: Plan) -> None:
        self.texts = TextCuts() if plan.options.texts_outside else None
        # Nodes of programs, each with the weights in the file that it holds.
        self.weights: list[tuple[Node, tuple[LegacyWeight, ...]]] = []
        # Names of layers whose results are used by their shapes alone.
        self.unused: list[str] = []
        self._options, self._policy = plan.options, plan.policy
        self._release = plan.legacy.release

    def node(
        self, config: Config, *, is_root: bool = False, is_output: bool = False
    ) -> Node:
        """Return the node of a config; `is_output` if the graph returns its result."""
        if op_layers.is_call(config):
            return OpCall(**config["config"], is_output=is_output)
        if programs.is_call(config):
            inside = config["config"].get("layer")
            node = None if inside is None else self.node(inside)
            return LambdaCall(**{**config["config"], "layer": node})
        if is_program(config):
            return ProgramCall(config["config"], self)
        cls = own_classes.registered(config)
        if cls is not None:
            return self._own(cls, config, is_root=is_root)
        if is_graph(config):
            kind = "Model" if "input_layers" in config["config"] else "Sequential"
            return self._graph(getattr(keras, kind), config, is_root=is_root)
        return self._stock(config)

    def _stock(self, config: Config) -> Node:
        if self.texts and (cut := self.texts.call(config)):
            return cut
        name, settings = config["class_name"], config["config"]
        if config["module"] == STOCK and name == "TimeDistributed":
            rest = {key: settings[key] for key in settings if key != "layer"}
            return OverTime(self.node(settings["layer"]), rest)
        layer = self._made(config, {})
        if config["module"] != STOCK:
            return layer
        call = masks.calling(layer, config.get("written_as"), self._release)
        if call is layer and name not in forms.CLASSES:
            return layer
        return StockLayer(layer, call, self._options.backends)

    def _graph(self, cls: type[Any], config: Config, *, is_root: bool) -> Node:
        settings = config["config"]
        if "input_layers" in settings:
            return self._functional(cls, settings, is_root=is_root)
        name = settings.get("name")
        model = cls(name=name)
        if name and model.name != name:
            model.name = name
        if self.texts and takes_texts(config):
            layers, make = settings["layers"], self._called
            return self.texts.sequence(model, layers, make, is_root=is_root)
        return graphs.sequential(model, self._parts(settings["layers"]))

    def _parts(self, layers: Sequence[Config]) -> list[Node]:
        """Return the nodes of a Sequential's layers."""
        parts: dict[str, Node] = {}
        for config in layers:
            node = self.node(config)
            if node.name in parts:
                reason = "the layers of a Sequential should have unique names, found "
                raise LegacyModelError(f"{reason}{node.name!r} twice.")
            parts[node.name] = node
        return [*parts.values()]

    def _called(self, config: Config) -> Node:
        """Return the node of a config; of a program, what it calls."""
        node = self.node(config)
        return node.called if isinstance(node, ProgramCall) else node

    def _functional(self, cls: type[Any], settings: Config, *, is_root: bool) -> Node:
        if self.texts:
            self.texts.check_readers(settings["layers"])
        inputs, outputs = graphs.ends(settings, self.node)
        others = {key: settings[key] for key in settings if key not in OF_GRAPHS}
        if self.texts:
            return self.texts.model(inputs, outputs, is_root=is_root, cls=cls, **others)
        model: keras.Model = cls(inputs=inputs, outputs=outputs, **others)
        return model

    def _own(self, cls: type[Any], config: Config, *, is_root: bool) -> Node:
        """Return the node of a user-defined class, made under its policy."""
        settings = config["config"] or {}
        # The name in the file, which the class may ignore.
        name = None if is_root else config.get("name") or settings.get("name")
        policy = self._policy if is_root else settings.get("dtype")
        layer, inside = None if is_root else name or cls.__name__, dict[str, Any]()
        with own_classes.creating(cls, settings, layer, policy):
            if own_classes.is_graph(cls, config):

                def graph(settings: Config) -> Node:
                    new = {**config, "config": settings}
                    return self._graph(cls, new, is_root=is_root)

                node = own_classes.from_config(cls, graph)(settings)
            else:
                node = self._made(config, inside)
            if name and node.name != name:
                node.name = name
        if isinstance(node, keras.Layer) and not node.built:
            own_classes.build_under(node, policy, inside)
        return node

    def _made(self, config: Config, inside: Config) -> Any:
        """Let Keras make an object; the layers in its config are made here.

        `inside` is filled with what stands for their classes.
        """
        settings = self._marked(config["config"], inside)
        with keras_internals.custom_object_scope(inside):
            return keras.saving.deserialize_keras_object(
                {**config, "config": settings}, safe_mode=self._options.safe_mode
            )

    def _marked(self, value: Any, inside: Config) -> Any:
        """Return a config with a new name for the class of each layer inside."""
        if isinstance(value, list | tuple):
            return [self._marked(item, inside) for item in value]
        if not isinstance(value, dict):
            return value
        if not _is_layer(value):
            return {key: self._marked(item, inside) for key, item in value.items()}

        def layer(settings: Config) -> Any:
            return layer_of(self.node({**value, "config": settings}))

        name = f"<{value['class_name']} {len(inside)}>"
        inside[name] = types.SimpleNamespace(from_config=layer)
        return {**value, "registered_name": name}


def _is_layer(config: Config) -> bool:
    """Return whether a dict in a config becomes a layer."""
    if not isinstance(config.get("config"), dict) or "class_name" not in config:
        return False
    is_ours = is_program(config) or programs.is_call(config) or is_graph(config)
    is_stock = config.get("module") == STOCK or op_layers.is_call(config)
    return is_ours or is_stock or own_classes.registered(config) is not None
