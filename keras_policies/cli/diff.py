"""`keras-policies diff`: compares two models layer by layer."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common import comparing, terminal
from keras_policies._common.text import one_line
from keras_policies._common.types import Config
from keras_policies.backends.running import backend
from keras_policies.cli.pairing import Node, nodes, own_config, paired, renamed
from keras_policies.cli.reports import UNLIMITED
from keras_policies.legacy.assembly import examples
from keras_policies.legacy.assembly.targets import layers
from keras_policies.legacy.guards import paths

HEADINGS = "layer", "difference of the weights", "config"
TOLD = 60  # characters of a value in a config
NAMED = 5  # the most layers of only one model that are named
# Left out of a model's config, because each layer is compared by itself.
LAYERS = "layers", "input_layers", "output_layers", "build_input_shape", "build_config"
ONLY = "only in OLD", "only in NEW"
# Keras writes the policy of a Sequential, but does not read it.
UNREAD = {"Sequential": ("dtype",)}


@dataclasses.dataclass(frozen=True)
class LayerDifference:
    """The differences of a layer between two models."""

    layer: str  # its path; `""` is the model itself
    config: tuple[str, ...]  # the settings that differ, or the only model that has it
    weights: float | None  # the largest difference; None if they cannot be compared


@dataclasses.dataclass(frozen=True)
class Diff:
    """The differences between two models."""

    layers: list[LayerDifference]  # those that differ
    outputs: float | None  # the largest difference, as a share of the largest output
    allowed: float  # the largest that rounding explains
    not_compared: str | None  # why the outputs were not compared

    @property
    def is_empty(self) -> bool:
        """bool, whether the models are equal as far as they were compared."""
        return not self.layers and (self.outputs or 0.0) <= self.allowed

    def as_dict(self) -> Config:
        """Return plain values for JSON; NaN and an infinite difference become texts."""
        values = {**dataclasses.asdict(self), "equal": self.is_empty}
        for holder, key in (
            (values, "outputs"),
            *((x, "weights") for x in values["layers"]),
        ):
            if holder[key] is not None and not np.isfinite(holder[key]):
                holder[key] = str(holder[key])
        return values


def compare(old: keras.Model, new: keras.Model, path: str) -> Diff:
    """Compare two models; `path` is the file of the first."""
    old_layers, in_new = (
        {place.path: place.layer for place in layers(each)} for each in (old, new)
    )
    paths_in_old = renamed(old_layers, in_new)
    new_layers = {paths_in_old[path]: layer for path, layer in in_new.items()}
    named = [each.keys() - {""} for each in (old_layers, new_layers)]
    if all(named) and not named[0] & named[1]:
        counts = f"{len(named[0])} in OLD, {len(named[1])} in NEW"
        return Diff([], float("inf"), 0.0, f"no layer in common ({counts})")
    with keras_internals.importing_no_tensorflow():
        rows = [*_differences(old_layers, new_layers)]
    dtypes = {layer.compute_dtype for layer in keras_internals.sublayers(old)}
    allowed = comparing.tolerance_here(dtypes).share
    example = examples.example(old, dtypes, paths.size(path))
    if example is None:
        return Diff(rows, None, allowed, "there are no inputs to call OLD on")
    try:
        outputs = backend.outputs(new, example.inputs)
    except Exception as error:  # whatever a layer raises for inputs of another model
        reason = f"NEW cannot be called on them: {type(error).__name__}"
        return Diff(rows, float("inf"), allowed, reason)
    if len(outputs) != len(example.outputs):
        return Diff(rows, float("inf"), allowed, "their numbers differ")
    pairs = zip(outputs, example.outputs, strict=True)
    shares = [comparing.relative_difference(*pair) for pair in pairs]
    return Diff(rows, float(np.max(shares, initial=0.0)), allowed, None)


def _differences(
    old: Mapping[str, keras.Layer], new: Mapping[str, keras.Layer]
) -> Iterator[LayerDifference]:
    for path in dict.fromkeys((*old, *new)):
        if path not in old or path not in new:
            yield LayerDifference(path, (ONLY[path in new],), None)
            continue
        layers = old[path], new[path]
        first, second = map(_config, layers)
        config = (*_settings(first, second), *_calls(*map(nodes, layers)))
        weights = _difference(*map(_own_weights, layers))
        if config or weights != 0.0:
            yield LayerDifference(path, config, weights)


def _config(layer: keras.Layer) -> Config:
    """Return the settings of a layer, without those of inner layers of a model."""
    config = own_config(layer)
    left_out = {*LAYERS, *UNREAD.get(config["class"], ())}
    return {key: config[key] for key in config.keys() - left_out}


def _settings(old: Config, new: Config, inside: str = "") -> Iterator[str]:
    """Yield the settings that differ.

    Example:
        >>> [*_settings({"dtype": {"name": "float16"}}, {"dtype": {"name": "float32"}})]
        ['dtype.name is "float32", was "float16"']
    """
    for key in sorted(old.keys() | new.keys(), key=str):
        first, second = old.get(key), new.get(key)
        if isinstance(first, dict) and isinstance(second, dict):
            yield from _settings(first, second, f"{inside}{key}.")
            continue
        texts = [json.dumps(value, sort_keys=True) for value in (first, second)]
        if texts[0] != texts[1]:
            yield f"{inside}{key} is {_cut(texts[1])}, was {_cut(texts[0])}"


def _calls(old: Sequence[Node], new: Sequence[Node]) -> Iterator[str]:
    """Yield the calls in a model that differ; a layer of one model has its own row."""
    names = paired(old, new)
    by_name = {node.name: node for node in old}
    for node in new:
        other = by_name.get(names.get(node.name, ""))
        if other is not None:
            del by_name[other.name]
            yield from _other_call(other, node, names)
        elif not node.is_layer:
            yield f"{_label(node)} is called on {_taken(node)}, {ONLY[1]}"
    for node in by_name.values():
        if not node.is_layer:
            yield f"{_label(node)} is called on {_taken(node)}, {ONLY[0]}"


def _other_call(old: Node, new: Node, names: Mapping[str, str]) -> Iterator[str]:
    """Yield how a layer or an operation is called otherwise."""
    takes = tuple((names.get(name, name), *rest) for name, *rest in new.takes)
    if takes != old.takes and new.calls is not None:
        yield f"{_label(new)} is called on {_taken(new)}, was on {_taken(old)}"
        return
    calls = keras.tree.map_structure(lambda v: names.get(v, v), new.calls)
    if json.dumps(calls) != json.dumps(old.calls):
        yield f"{_label(new)} is called with other arguments"


def _label(node: Node) -> str:
    return repr(node.name) if node.is_layer else f"the operation {node.class_name}"


def _taken(node: Node) -> str:
    return ", ".join(repr(name) for name, *_ in node.takes) or "nothing"


def _cut(text: str) -> str:
    return text if len(text) <= TOLD else f"{text[:TOLD]}…"


def _own_weights(layer: keras.Layer) -> list[Any]:
    """Return the weights of a layer, except those of its inner layers."""
    inner = keras_internals.sublayers(layer)[1:]
    others = {id(weight) for part in inner for weight in part.weights}
    own = (weight for weight in layer.weights if id(weight) not in others)
    return [keras.ops.convert_to_numpy(weight.value) for weight in own]


def _difference(old: list[Any], new: list[Any]) -> float | None:
    """Return the largest difference, or None if shapes differ. NaN equals NaN."""
    if [each.shape for each in old] != [each.shape for each in new]:
        return None
    pairs = zip(old, new, strict=True)
    found = [_largest(a, b) for a, b in pairs if a.size]
    return float(np.max(found, initial=0.0))  # NaN, where one is among them


def _largest(a: Any, b: Any) -> float:
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    return float(np.max(np.abs(a.astype("float64") - b.astype("float64"))))


def show(diff: Diff) -> None:
    """Print a table of the layers that differ, and a line about the outputs."""
    console = terminal.console(UNLIMITED)
    rows = [cells for row in diff.layers for cells in _cells(row)]
    if rows:
        console.print(terminal.table(HEADINGS, rows, console.width, wrapped=(2,)))
    for only in ONLY:
        names = [row.layer for row in diff.layers if row.config == (only,)]
        others = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        if names:
            print(one_line(f"{only}: {', '.join(names[:NAMED] + others)}"))
    line = f"outputs: not compared: {diff.not_compared}"
    if diff.not_compared is None:
        line = f"outputs: largest difference {diff.outputs:.1g} of the largest output"
        line += f", allowed {diff.allowed:.1g}"
    print(line)
    count = len(diff.layers)
    layers = f": {count} layer{'s'[: count > 1]}" if count else ""
    print("equal" if diff.is_empty else f"different{layers}")


def _cells(row: LayerDifference) -> Iterator[tuple[str, str, str]]:
    """Yield a table row for each setting of a layer that both models have."""
    if {*row.config} & {*ONLY}:
        return
    weights = "other shapes" if row.weights is None else f"{row.weights:.3g}"
    first, *others = row.config or ("",)
    yield row.layer or "the model", weights, first
    yield from (("", "", setting) for setting in others)
