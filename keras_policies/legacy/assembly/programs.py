"""Runs the programs of rebuilt layers on symbolic tensors while a model is built.

The plan has the steps; shapes and dtypes are known only now. Stock layers are created
and called, ops become nodes, and each layer is listed with its weights in the file.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import keras

from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.assembly import nodes
from keras_policies.legacy.assembly.calls import OpCall, as_output
from keras_policies.legacy.assembly.keras_differences import forms, masks
from keras_policies.legacy.assembly.nodes import Node, layer_of, one_or_all
from keras_policies.legacy.assembly.text_cuts import TextCuts, gives_texts, is_cut
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.configs import layer_name
from keras_policies.legacy.base.errors import located
from keras_policies.legacy.base.programs import Program
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.bytecode.program import Run
from keras_policies.legacy.plan import graph
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.program import Names
from keras_policies.legacy.values.evaluator import is_tensor

CONVOLUTIONS = "Conv1D", "Conv2D", "Conv3D"


class Builds(Protocol):
    """What makes the layers that programs call, and lists what programs created."""

    texts: TextCuts | None  # if layers of texts are cut off
    # Nodes, each with the weights in the file that its layer holds.
    weights: list[tuple[Node, tuple[LegacyWeight, ...]]]
    unused: list[str]  # names of layers whose results are used by their shapes alone

    def node(self, config: Config) -> Node:
        """Return the node of a config."""


class ProgramCall:
    """Calls what a program creates as the original layer was called."""

    def __init__(self, config: Config, builder: Builds) -> None:
        self._program: Program = config["program"]
        with located(layer=self._program.path or None):
            self.called = _LayerRun(self._program, config["layers"], builder).layer()
        self.name = self.called.name
        self._ops: dict[str, OpCall] = {}  # by their names; all calls share them

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Layer:
        return layer_of(self.called, tensors)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer on all tensors, in the order of the program's inputs."""
        program = self._program
        named = [name for name in program.arguments if name in kwargs]
        others = sorted(kwargs.keys() - {*named})
        tensors = [x for x in keras.tree.flatten(args) if is_tensor(x)]
        for name in [*named, *others]:
            values = [x for x in keras.tree.flatten(kwargs[name]) if is_tensor(x)]
            if not values and name in named and kwargs[name] is not None:
                values = [self._made(name, "_Constant", kwargs[name], *tensors[:1])]
            tensors += values
        if len(tensors) == len(program.inputs) - 1:
            tensors.append(self._made("mask", "_Mask", *tensors[:1]))
        return self.called(one_or_all(tensors))

    def _made(self, name: str, op: str, *inputs: Any) -> Tensor:
        """Return an argument that an op creates."""
        if name not in self._ops:
            full = f"{self.name}_{name}"
            self._ops[name] = OpCall(full, self._program.path, op, {"op": op})
        return self._ops[name]([*inputs])


class _LayerRun(Run):
    """The run of a rebuilt layer, which makes the layers that it calls."""

    def __init__(self, program: Program, layers: Config, builder: Builds) -> None:
        specs = [] if program.is_layer else program.inputs
        inputs = [
            keras.Input(batch_shape=spec.shape, dtype=spec.dtype, name=spec.name)
            for spec in specs
        ]
        super().__init__(program, inputs)
        self.configs, self.builder = layers, builder
        self.layers: dict[str, Node] = {}
        self._zero: Tensor | None = None
        self._chosen: dict[tuple[int, int], Tensor] = {}  # see `masks.chosen`
        self._names = Names()
        for step in program.steps:
            self._names.take(step.name)

    def layer(self) -> Node:
        """Return the layer that takes the place of the missing one."""
        program = self.program
        if program.is_layer:
            (name,) = self.configs
            layer = self._layer(name)
            self._note([name])
            return layer
        ends = trees.mapped(lambda x: as_output(x, self.inputs), self.outputs())
        nests = _unwrapped(self.filled(program.starts)), _unwrapped(ends)
        name, texts = layer_name(program.name), self.builder.texts
        if texts is None:
            model = made = keras.Model(*nests, name=name)
        else:
            made = texts.model(*nests, is_root=not program.path, name=name)
            model = getattr(made, "part", made)
        names = {layer.name for layer in model.layers}
        self._note([name for name in self.layers if name in names])
        others = {n: layer for n, layer in self.layers.items() if n not in names}
        cut = {n for n, node in others.items() if texts and gives_texts(node)}
        self.builder.unused.extend(name for name in others if name not in cut)
        return made

    def _note(self, names: list[str]) -> None:
        weights = self.program.weights
        held = ((self.layers[name], weights[name]) for name in names if weights[name])
        self.builder.weights.extend(held)

    def _layer(self, name: str, more: Config | None = None) -> Node:
        """Return the node of a layer; `more` are settings that its config lacks."""
        if name not in self.layers:
            config = self.configs[name]
            if more:
                config = {**config, "config": {**config["config"], **more}}
            self.layers[name] = self.builder.node(config)
        return self.layers[name]

    def performed(self, step: Any) -> Sequence[Any]:
        output = self._op(step) if isinstance(step, ir.OpStep) else self._call(step)
        is_nest = isinstance(output, tuple | list | dict)
        return keras.tree.flatten(output) if is_nest else [output]

    def _op(self, step: ir.OpStep) -> Any:
        node = {"op": step.op, "attr": dict(step.attributes)}
        call = OpCall(step.name, self.program.path, step.op, node)
        return call([*map(self.value, step.inputs)])

    def _call(self, step: ir.CallStep) -> Any:
        spec: ir.LayerSpec = step.spec
        first = ir.mapped(self._tensor, step.argument)
        node = self._layer(step.name, self._groups(spec, step.name, first))
        kwargs = ir.mapped(self._tensor, dict(step.kwargs))
        first, kwargs = graph.call(spec.class_name, spec.config, first, kwargs)
        mask = kwargs.get("attention_mask")
        if keras.backend.is_keras_tensor(mask):
            axes = layer_of(node).get_config()["attention_axes"] or (-1,)
            key = id(mask), len(axes)
            if key not in self._chosen:  # layers share it
                self._chosen[key] = masks.chosen(mask, len(axes))
            kwargs["attention_mask"] = self._chosen[key]
        tensors = forms.tensors_in(first, kwargs)
        is_called = is_cut(node) or nodes.ends_mask(node, tensors[0])
        is_called = is_called or keras.backend.is_keras_tensor(mask)
        layer = node if is_called else layer_of(node, tensors)
        return layer(first, **kwargs)

    def _groups(self, spec: ir.LayerSpec, name: str, first: Any) -> Config:
        """Return the groups of channels that the shape of a kernel implies."""
        if spec.number is not None or spec.class_name not in CONVOLUTIONS:
            return {}
        axis = 1 if spec.config["data_format"] == "channels_first" else -1
        channels = first.shape[axis] or 0
        depth = next(w.shape[-2] for w in self.program.weights[name])
        return {"groups": channels // depth} if channels > depth > 0 else {}

    def value(self, value: Any) -> Any:
        if isinstance(value, ir.Constant):
            return value.value
        return self._anchor() if isinstance(value, ir.Anchor) else super().value(value)

    def _tensor(self, value: ir.Value) -> Tensor:
        """Return a tensor of the model: a layer is called on nothing else."""
        tensor = self.value(value)
        if is_tensor(tensor):
            return tensor
        return self._added("_Tensor", [tensor, self._anchor()])

    def _anchor(self) -> Tensor:
        if self._zero is None:
            numbers = [x for x in self.inputs if x.dtype != "string"]
            first = numbers[0] if numbers else self._number()
            self._zero = self._added("_Zero", [first])
        return self._zero

    def _number(self) -> Tensor:
        """Return numbers that depend on the inputs, which are texts or were cut off."""
        steps = self.program.steps if self.builder.texts else ()
        for step in steps:
            is_call = isinstance(step, ir.CallStep)
            if is_call and isinstance(step.argument, ir.Argument):
                number: Tensor = keras.tree.flatten(self._call(step))[0]
                return number
        return keras.layers.Hashing(1)(self.inputs[0])

    def _added(self, op: str, inputs: list[Any]) -> Tensor:
        """Call an op that is not a step of the program."""
        name = self._names.take(op)
        return OpCall(name, self.program.path, op, {"op": op})(inputs)


def _unwrapped(nest: Any) -> Any:
    """Return a nest without the list around a single tensor."""
    if isinstance(nest, dict):
        return {key: _unwrapped(item) for key, item in nest.items()}
    if not isinstance(nest, list):
        return nest
    return one_or_all([*map(_unwrapped, nest)])
