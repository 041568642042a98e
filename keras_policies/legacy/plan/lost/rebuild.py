"""Replaces the lost layers of a `LegacyModel` by what their functions did."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base import configs, remedies
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.model import (
    Array,
    Config,
    LegacyModel,
    LegacyOptimizerState,
    LegacyWeight,
)
from keras_policies.legacy.base.recorded import Recorded, RecordedLayer, Spec, Trace
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops.op_layers import GRAPH_OP
from keras_policies.legacy.plan import classes, layers
from keras_policies.legacy.plan.findings import Settings
from keras_policies.legacy.plan.lost import traces
from keras_policies.legacy.plan.lost.bodies import Layers
from keras_policies.legacy.plan.lost.functional import Functional, Weights
from keras_policies.legacy.plan.lost.steps import (
    Argument,
    Held,
    Known,
    Nest,
    Part,
    Step,
    Value,
    same,
    values_in,
)
from keras_policies.legacy.plan.lost.tracing import Tracing, limit
from keras_policies.legacy.plan.lost.weights import Owner, without_dead
from keras_policies.legacy.plan.lost.weights import Weights as Rewriting

FUNCTIONAL = "Functional"
MAX_DEPTH = 400  # steps that Keras surely recurses through under Python's usual limit
GRAPHS = FUNCTIONAL, "Model", "Network", "Sequential"


@dataclasses.dataclass(frozen=True)
class Rebuilt:
    """A model without lost layers, and what was done.

    Args:
        layers: `{path of a rebuilt layer: its class}`; `""` is the model itself.
        unused: the names of the variables that no inference function reads.
        depth: the steps of the largest rebuilt layer.
    """

    legacy: LegacyModel
    layers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()
    depth: int = 0

    def __str__(self) -> str:
        """Return what a user should know, in sentences."""
        named = ", ".join(
            f"{path!r} ({class_name})" if path else f"the model itself ({class_name})"
            for path, class_name in self.layers.items()
        )
        text = (
            "the classes of these layers are not to be found, so they were made of the "
            f"functions that the file recorded for inference: {named}. They train, but "
            "not with what they only did in training: dropout and noise by ops, losses "
            "that they added, statistics moved by assignments. Random draws of an "
            "inference function happen in training only, and are zeros in inference."
        )
        if self.unused:
            unused = ", ".join(self.unused)
            text += f" Left out, since no inference function reads them: {unused}."
        if self.depth > MAX_DEPTH:
            text += (
                f" One has {self.depth} steps, so a .keras file of this model opens "
                f"only after sys.setrecursionlimit({2000 + 2 * self.depth})."
            )
        return f"{text} To use the classes, pass custom_objects."


def rebuilt(
    legacy: LegacyModel, settings: Settings, signature: str | None = None
) -> Rebuilt:
    """Return the model with its lost layers replaced, where functions are recorded.

    Layers that cannot be replaced stay as they are. `signature` names the function that
    the model itself becomes; None is its own.
    """
    is_recorded = legacy.recorded is not None and 0 in legacy.recorded.layers
    if legacy.recorded is None or not is_recorded or not settings.replaces_lost:
        return Rebuilt(legacy)
    named = legacy.recorded.signatures
    if signature is not None and signature not in named:
        raise LegacyModelError(
            f"there is no signature {signature!r} in it; there are {sorted(named)}."
        )
    written = {**legacy.config, "name": configs.name_of(legacy.config)}
    if signature is None and is_known(written, settings):
        return Rebuilt(legacy)
    work = _Rebuilding(legacy.recorded, settings, signature)
    with budget.of(legacy.size):
        found = work.entry(written, 0, "", is_root=True)
    if found is None or not work.rebuilt:
        return Rebuilt(legacy)
    config, weights = found
    by_layer = _by_layer(weights, legacy.recorded.variables)
    changed = work.changed_top_level if configs.is_graph(legacy.config) else by_layer
    new = {
        name: tuple(weight for _, weight in by_layer.get(name, ()))
        if name in changed
        else legacy.weights.get(name, ())
        for name in (legacy.weights if configs.is_graph(legacy.config) else by_layer)
    }
    renewed = {
        id(legacy.recorded.variables[number]): weight
        for name in changed
        for number, weight in reversed(by_layer.get(name, []))
    }
    model = dataclasses.replace(
        legacy,
        config=config,
        weights=new,
        optimizer=_with_weights(legacy.optimizer, renewed),
    )
    read = {number for _, number, _ in weights}
    every = legacy.recorded.layers[0].variables
    unused = [legacy.recorded.variables[n].name for n in every if n not in read]
    return Rebuilt(model, work.rebuilt, tuple(unused), work.depth)


def _is_own(written: Config) -> bool:
    """Return whether a user's class is known for a layer."""
    return classes.registered_name(str(written["class_name"])) is not None


def is_known(written: Config, settings: Settings) -> bool:
    """Return whether a layer or a model can be made from its config."""
    if written.get("config") is None and not _is_own(written):
        return False
    try:
        _, found = layers.keras_model(written, settings)
    except LegacyModelError:
        return False
    return not (found.missing or found.missing_ops or found.code)


class _Rebuilding:
    def __init__(
        self, recorded: Recorded, settings: Settings, signature: str | None
    ) -> None:
        self.recorded = recorded
        self.settings = settings
        self.signature = signature
        self.rebuilt: dict[str, str] = {}
        self.depth = 0
        self.changed_top_level: set[str] = set()
        self._layers = Layers(recorded)
        self._left = limit()
        self._parts: dict[int, Part | None] = {}
        self._around: list[int] = []  # the lost layers that are being rebuilt

    def entry(
        self,
        written: Config,
        number: int | None,
        path: str,
        is_root: bool = False,
        tensors: int | None = None,
    ) -> tuple[Config, Weights] | None:
        """Return a config without lost layers, and its weights.

        None where a layer is lost, and no function of it is recorded.
        """
        by_signature = is_root and self.signature is not None
        if configs.is_graph(written) and not by_signature and not _is_own(written):
            return self._graph(written, number, path)
        if not by_signature and is_known(written, self.settings):
            weights = () if number is None else tuple(self._weights(number))
            return written, weights
        layer = None if number is None else self.recorded.layers[number]
        if layer is None or number is None or number in self._around:
            return None
        found = traces.for_inference(layer.traces, tensors)
        if is_root and self.signature is not None:
            found = [self.recorded.signatures[self.signature]]
        if not found:
            return None
        with located(layer=path or None):
            return self._functional(written, number, layer, found, path, is_root)

    def _graph(
        self, written: Config, number: int | None, path: str
    ) -> tuple[Config, Weights] | None:
        """Return the config of a Sequential or Functional model."""
        children = {} if number is None else self._named_children(number)
        new, weights = [], []
        for layer in configs.inner_layers(written):
            child = self._child(children, layer)
            layer = self._with_name(layer, child)
            name = configs.name_of(layer)
            below = f"{path}/{name}" if path else name
            before = len(self.rebuilt)
            tensors = _tensors(layer) if layer.get("inbound_nodes") else None
            found = self.entry(layer, child, below, tensors=tensors)
            if found is None:
                new.append(layer)
                continue
            config, own = found
            if config is not layer and config["class_name"] != layer["class_name"]:
                nodes = [_flat(node) for node in layer.get("inbound_nodes") or ()]
                if nodes and len(config["config"]["input_layers"]) > len(nodes[0]):
                    new.append(_mask_layer(name, nodes))
                    nodes = [
                        [*node, [f"{name}_mask", number, 0, {}]]
                        for number, node in enumerate(nodes)
                    ]
                config = {**config, "name": name, "inbound_nodes": nodes}
            if len(self.rebuilt) > before and not path:
                self.changed_top_level.add(name)
            new.append(config)
            weights += [(f"{name}/{p}", v, shape) for p, v, shape in own]
        inner = written["config"]
        inner = {"layers": new} if isinstance(inner, list) else {**inner, "layers": new}
        class_name = written["class_name"]
        is_lost = class_name not in GRAPHS and not _is_own(written)
        if is_lost and "input_layers" in inner:  # a subclass with its whole config
            self.rebuilt[path] = class_name
            class_name = FUNCTIONAL
        return {**written, "class_name": class_name, "config": inner}, tuple(weights)

    def _named_children(self, number: int) -> dict[str, int]:
        """Return the layers of a Sequential or Functional model by their names."""
        return {
            self.recorded.layers[child].name: child
            for child in self.recorded.layers[number].children.values()
            if child in self.recorded.layers
        }

    def _child(self, children: dict[str, int], layer: Config) -> int | None:
        """Return the number of a layer; one without config is known by its class."""
        name = configs.name_of(layer)
        if name in children:
            return children.pop(name)
        of_class = (
            name
            for name, number in children.items()
            if self.recorded.layers[number].class_name == layer.get("class_name")
        )
        found = next(of_class, None)
        return None if found is None else children.pop(found)

    def _with_name(self, layer: Config, number: int | None) -> Config:
        if number is None or isinstance(layer.get("config"), list):
            return layer
        config = layer.get("config") or {}
        if "name" in layer or "name" in config:
            return layer
        name = self.recorded.layers[number].name
        return {**layer, "config": {**config, "name": name}}

    def _weights(self, number: int) -> Iterator[tuple[str, int, None]]:
        """Yield the variables of a layer, with the attributes that lead to them."""
        seen, waiting = {number}, [(number, "")]
        found: dict[int, str] = {}
        while waiting:
            at, prefix = waiting.pop(0)
            layer = self.recorded.layers[at]
            children = dict(layer.children)
            if configs.is_graph({"config": layer.config}):
                children = self._named_children(at)
            for name, child in children.items():
                if child in self.recorded.variables:
                    found.setdefault(child, f"{prefix}{name}")
                elif child in self.recorded.layers and child not in seen:
                    seen.add(child)
                    waiting.append((child, f"{prefix}{name}/"))
        for variable in self.recorded.layers[number].variables:
            if variable in self.recorded.variables:
                name = self.recorded.variables[variable].name
                yield found.get(variable, name), variable, None

    def _functional(
        self,
        written: Config,
        number: int,
        layer: RecordedLayer,
        found: Sequence[Trace],
        path: str,
        is_root: bool,
    ) -> tuple[Config, Weights]:
        """Return the Functional model that does what the first of its traces did."""
        trace, specs = found[0], traces.merged(found)
        given: list[Value] = [Argument(i) for i in range(len(specs))]
        followed, outputs = self._followed(number, trace)
        if specs != traces.specs(trace.inputs):
            others = [self._followed(number, other) for other in found[1:]]
            if not all(same((followed, outputs), other) for other in others):
                specs = traces.specs(trace.inputs)
        wanted = traces.specs(trace.outputs)
        ends: Nest = outputs[: len(wanted)]
        starts: Nest = list(given)
        if is_root:
            ends = traces.filled(trace.outputs, iter(outputs))
            if not trace.inputs[0] and len(outputs) == 1:  # of a signature
                ends = outputs
            starts = _first(traces.filled(trace.inputs, iter(given)), given)
        owner = Owner(
            layer.name,
            layer.config.get("dtype"),
            frozenset(layer.trainable),
            self.recorded.variables,
        )
        dtypes = [spec.dtype for spec in specs]
        rewritten = Rewriting(owner, followed, ends, dtypes)
        steps, ends = without_dead(rewritten.steps, rewritten.outputs)
        self.depth = max(self.depth, len(steps))
        inputs = [_input(spec, owner) for spec in specs]
        model = Functional(inputs, steps)
        config = model.config(configs.name_of(written), starts, ends)
        self.rebuilt[path] = str(written["class_name"])
        return {"class_name": FUNCTIONAL, "config": config}, tuple(model.weights)

    def _followed(self, number: int, trace: Trace) -> tuple[list[Step], list[Value]]:
        """Return what a trace of a layer did, and its outputs."""
        if kinds := traces.composites(trace.inputs):
            raise LegacyModelError(
                f"its function takes a {kinds[0]}, and Keras 3 passes dense tensors.",
                remedies.pass_custom_object(self.recorded.layers[number].class_name),
            )
        specs = traces.specs(trace.inputs)
        given = [Argument(i) for i in range(len(specs))]
        captured = [self._captured(one) for one in trace.captures]
        tracing = Tracing(self.recorded, self._layers, specs, self._part, self._left)
        self._around.append(number)
        outputs = tracing.follow(trace.function, [*given, *captured])
        self._around.pop()
        return tracing.steps, outputs

    def _captured(self, number: int) -> Value:
        if number in self.recorded.variables:
            return Held(number)
        if number in self.recorded.constants:
            return Known(self.recorded.constants[number]())
        raise LegacyModelError(
            "the function that it recorded uses a table or another resource that is no "
            "variable."
        )

    def _part(self, number: int) -> Part | None:
        """Return the layer that a recorded layer becomes inside a rebuilt one."""
        if number in self._around or number == 0:
            return None
        if number not in self._parts:
            self._parts[number] = self._new_part(number)
        return self._parts[number]

    def _new_part(self, number: int) -> Part | None:
        layer = self.recorded.layers[number]
        config = {**layer.config} if layer.has_config else None
        written = {"class_name": layer.class_name, "name": layer.name, "config": config}
        found = self.entry(written, number, self._path(layer.name))
        if found is None:
            return None
        config, weights = found
        count = None
        if config["class_name"] == FUNCTIONAL and layer.class_name != FUNCTIONAL:
            count = len(config["config"]["input_layers"])
        return Part(layer.name, config["class_name"], config["config"], weights, count)

    def _path(self, name: str) -> str:
        names = [self.recorded.layers[n].name for n in self._around if n]
        return "/".join([*names, name])


def _input(spec: Spec, owner: Owner) -> Spec:
    """Return the spec of an input, which the policy of the layer does not cast."""
    return Spec(spec.shape, "float32", spec.name) if spec.dtype == owner.mixed else spec


def _first(inputs: Nest, given: Sequence[Value]) -> Nest:
    """Return the structure of a model's inputs: its first argument if that is all."""
    args, kwargs = inputs
    if not args:  # of a signature
        return kwargs if len(given) > 1 else list(given)
    is_all = bool(args) and len(values_in(args[0])) == len(given)
    return args[0] if is_all and traces.is_tensors(args[0]) else list(given)


def _mask_layer(name: str, nodes: Sequence[Nest]) -> Config:
    """Return the op layer that gives the masks of the tensors that a layer takes."""
    config = {"name": f"{name}_mask", "node_def": {"op": "_Mask"}, "constants": {}}
    calls = [[node[0]] for node in nodes]
    return {
        "class_name": GRAPH_OP,
        "name": f"{name}_mask",
        "config": config,
        "inbound_nodes": calls,
    }


def _is_tensor(node: Any) -> bool:
    return (
        isinstance(node, list | tuple)
        and len(node) in (3, 4)
        and isinstance(node[0], str)
        and isinstance(node[1], int)
    )


def _flat(node: Any) -> list[Any]:
    """Return the tensors of an inbound node in a list, those of arguments last."""
    if _is_tensor(node):
        others = _flat(node[3]) if len(node) == 4 else []
        return [[*node[:3], {}], *others]
    if isinstance(node, dict):
        node = [node[key] for key in sorted(node)]
    if not isinstance(node, list | tuple):
        return []
    flat = [_flat(item) for item in node]
    firsts = [found[:1] for found in flat] if all(map(_is_tensor, node)) else flat
    others = [found[1:] for found in flat] if all(map(_is_tensor, node)) else []
    return [tensor for found in (*firsts, *others) for tensor in found]


def _tensors(layer: Config) -> int:
    """Return how many tensors the first call of a layer takes."""
    return len(_flat(layer["inbound_nodes"][0]))


def _by_layer(
    weights: Weights, variables: Mapping[int, LegacyWeight]
) -> dict[str, list[tuple[int, LegacyWeight]]]:
    """Return the weights of each layer of the model, with their numbers."""
    found: dict[str, list[tuple[int, LegacyWeight]]] = {}
    for path, number, shape in weights:
        layer, _, rest = path.partition("/")
        weight = dataclasses.replace(variables[number], path=rest)
        if shape is not None:
            weight = _reshaped(weight, shape)
        found.setdefault(layer, []).append((number, weight))
    return found


def _reshaped(weight: LegacyWeight, shape: tuple[int, ...]) -> LegacyWeight:
    if weight.shape == shape:
        return weight

    def read() -> Array:
        return np.reshape(weight.read(), shape)

    return dataclasses.replace(weight, shape=shape, read=read)


def _with_weights(
    state: LegacyOptimizerState, renewed: Mapping[int, LegacyWeight]
) -> LegacyOptimizerState:
    """Return the state of an optimizer, its slots those of the new weights."""
    slots = []
    for slot in state.slots:
        weight = renewed.get(id(slot.variable))
        if weight is not None:
            value = _reshaped(slot.value, weight.shape)
            slot = dataclasses.replace(slot, variable=weight, value=value)
        slots.append(slot)
    return dataclasses.replace(state, slots=tuple(slots))
