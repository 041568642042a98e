"""The traced layers of a file, and which of a layer's functions to follow.

Layers are found by the names that lead to them and by the variables that they hold.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from keras_policies.legacy.base import configs, trees
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.traced_functions import (
    Composite,
    ConcreteFunction,
    Nest,
    TensorSpec,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.base.traced_functions import specs as specs
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.report import Arguments


def variables(traced: TracedFunctions, number: int) -> Iterator[tuple[str, int, None]]:
    """Yield the variables of a layer, with the attributes that lead to them."""
    seen, waiting = {number}, [(number, "")]
    paths: dict[int, str] = {}
    for at, prefix in waiting:  # which grows
        layer = traced.layers[at]
        is_graph = configs.is_graph({"config": layer.config})
        children = traced.by_name(at) if is_graph else layer.children
        for name, child in children.items():
            if child in traced.variables:
                paths.setdefault(child, f"{prefix}{name}")
            elif child in traced.layers and child not in seen:
                seen.add(child)
                waiting.append((child, f"{prefix}{name}/"))
    for variable in traced.layers[number].variables:
        if variable in traced.variables:
            name = traced.variables[variable].name
            yield paths.get(variable, name), variable, None


def vocabularies(
    traced: TracedFunctions, by_path: Mapping[str, Vocabulary]
) -> dict[int, Vocabulary]:
    """Return vocabularies by number of the layer; a path has names and attributes."""
    by_number: dict[int, Vocabulary] = {}
    children_of: dict[int, dict[str, int]] = {}
    for path, vocabulary in by_path.items():
        number, rest = 0, path
        while rest and number in traced.layers:
            if number not in children_of:
                attributes = dict(traced.layers[number].children)
                children_of[number] = traced.by_name(number) | attributes
            children = children_of[number]
            edges = (e for e in configs.beginnings(rest) if e and e in children)
            edge = max(edges, key=len, default=rest)
            number, rest = children.get(edge, -1), rest[len(edge) :].lstrip("/")
        by_number[number] = vocabulary
    return by_number


def reads_in_training(layer: TracedLayer) -> frozenset[int]:
    """Return the variables that a layer reads in training: no moving averages."""
    is_normalization = layer.class_name == "BatchNormalization"
    return frozenset(layer.trainable if is_normalization else layer.variables)


class Layers:
    """The traced layers, found by their variables and their names."""

    def __init__(self, traced: TracedFunctions) -> None:
        self.traced = traced
        self._names = {layer.name for layer in traced.layers.values()}
        self._numbers: dict[tuple[frozenset[int], str], list[int]] = {}
        for number, layer in traced.layers.items():
            for read in {frozenset(layer.variables), reads_in_training(layer)}:
                numbers = self._numbers.setdefault((read, layer.name), [])
                if len(numbers) < limits.NAMESAKES:
                    numbers.append(number)

    def has_name(self, last: str) -> bool:
        """Return whether a layer is called as the last part of a scope says."""
        return not self._names.isdisjoint(_names(last))

    def named(
        self, scope: str, variables: frozenset[int], functions: Iterable[str] = ()
    ) -> list[int]:
        """Return the layers that a scope of nodes with these variables can be.

        A layer that is called again gets a number after its name, so that the second
        call of `scale` has the scope of a layer `scale_1`. `functions`, which the nodes
        call, tell them apart: they have the name of a layer in their own.
        """
        calls = (re.match(r"__inference_(.+)_layer_call_", name) for name in functions)
        called = self._names.intersection(call[1] for call in calls if call)
        names = _names(scope.rpartition("/")[2])
        fitting = (name for name in names if not called or name in called)
        matches = (self._numbers.get((variables, name), ()) for name in fitting)
        return [*itertools.chain(*matches)][: limits.NAMESAKES]


def _names(last: str) -> Iterable[str]:
    """Return the names of the layers that the last part of a scope can mean."""
    return dict.fromkeys((last, re.sub(r"_\d+$", "", last)))


def is_complex(trace: ConcreteFunction) -> bool:
    """Return whether a function takes or returns complex numbers."""
    every = specs((trace.inputs, trace.outputs))
    return any(str(spec.dtype).startswith("complex") for spec in every)


def is_of_any_rank(trace: ConcreteFunction) -> bool:
    """Return whether a trace takes a tensor whose rank is not recorded."""
    return any(spec.shape is None for spec in specs(trace.inputs))


def composites(nest: Nest) -> list[str]:
    """Return the types of the composite tensors in a nest, such as "ragged"."""
    return [leaf.kind for leaf in trees.leaves(nest) if isinstance(leaf, Composite)]


def unflatten(nest: Nest, values: Iterator[Any]) -> Nest:
    """Return a nest with the next value in place of each spec; tuples become lists."""
    if isinstance(nest, TensorSpec):
        return next(values)
    if isinstance(nest, dict):
        return {key: unflatten(nest[key], values) for key in sorted(nest)}
    if isinstance(nest, list | tuple):
        return [unflatten(item, values) for item in nest]
    return nest


def is_tensors(nest: Nest) -> bool:
    """Return whether a nest consists of values, at least one of them."""
    ends = trees.leaves(nest, is_leaf=lambda part: not part)  # also an empty list
    tensors = ir.Argument | ir.VariableRef | ir.StepOutput | ir.Constant
    return all(isinstance(end, tensors) for end in ends)


def names(inputs: Nest) -> list[str]:
    """Return the names of positional arguments, "" for one without tensors.

    The first tensor of `states` is named `states/0`, and `states_0` from 2.5 on.
    """
    args, _ = inputs
    return [_name(argument) for argument in args]


def _name(argument: Nest) -> str:
    name = (specs(argument) or [TensorSpec(None, "")])[0].name
    is_nest = not isinstance(argument, TensorSpec)
    return re.sub(r"[/_]\d+$", "", name) if is_nest else name


def for_inference(
    traces: Sequence[ConcreteFunction], called: Arguments | None = None
) -> list[ConcreteFunction]:
    """Return the traces for inference, the one with the most general shapes first.

    They take as many tensors as the layer is called on, or one more, which is a mask;
    those come first that nest them alike. If that is not known, they take the smallest
    number that any trace takes.
    """
    by_count: dict[int, list[ConcreteFunction]] = {}
    for trace in traces:
        by_count.setdefault(len(specs(trace.inputs)), []).append(trace)
    if called is None:
        called = Arguments(min(by_count.keys() - {0}, default=0), 0)
    tensors, first = called
    more = by_count.get(tensors + 1, ()) if tensors else ()
    masked = [trace for trace in more if specs(trace.inputs)[-1].name == "mask"]
    taken = by_count.get(tensors) or masked
    alike = [trace for trace in taken if _first(trace) == first]
    budget.work(budget.ITEM * len(taken) * len(traces))
    inferring = [t for t in alike or taken if not any(trains(t, o) for o in traces)]
    fitting = sorted(inferring or alike or taken, key=_rank, reverse=True)
    return [trace for trace in fitting if _rank(trace)[:2] == _rank(fitting[0])[:2]]


def trains(trace: ConcreteFunction, other: ConcreteFunction) -> bool:
    """Return whether two traces differ by one argument alone, `training` of the first.

    Keras traces each call with both; another argument may be True in both.
    """
    if len(trees.leaves(trace.inputs)) != len(trees.leaves(other.inputs)):
        return False
    pairs = zip(trees.leaves(trace.inputs), trees.leaves(other.inputs), strict=True)
    different = [pair for pair in pairs if pair[0] != pair[1]]
    return different == [(True, False)] and _masked(trace) == _masked(other)


def _masked(trace: ConcreteFunction) -> Nest:
    """Return the arguments of a trace, without the values of switches."""
    return trees.mapped(lambda x: bool if isinstance(x, bool) else x, trace.inputs)


def _first(trace: ConcreteFunction) -> int | list[str]:
    """Return the tensors in the first argument of a trace, the keys of a dict."""
    args, _ = trace.inputs
    first = args[0] if args else None
    return sorted(first) if isinstance(first, dict) else len(specs(first))


def general_specs(traces: Sequence[ConcreteFunction]) -> list[TensorSpec]:
    """Return the specs of traces, None for each size that differs; ranks must agree."""
    all_specs = [specs(trace.inputs) for trace in traces]
    first, general = all_specs[0], []
    for same in zip(*all_specs, strict=True):
        shapes = [spec.shape for spec in same]
        if len({None if shape is None else len(shape) for shape in shapes}) > 1:
            return first
        if shapes[0] is None:
            return first
        sizes = zip(*(shape or () for shape in shapes), strict=True)
        shape = tuple(s[0] if len(set(s)) == 1 else None for s in sizes)
        general.append(TensorSpec(shape, same[0].dtype, same[0].name))
    return general


def _rank(trace: ConcreteFunction) -> tuple[bool, bool, int]:
    shapes = [spec.shape for spec in specs(trace.inputs)]
    unknown = sum(size is None for shape in shapes for size in shape or ())
    trains = any(leaf is True for leaf in trees.leaves(trace.inputs))
    return not trains, None not in shapes, unknown
