"""Turns look-ups in tables, and of texts, into the stock layers that do them.

    LookupTableFindV2(table, words, -1) -> StringLookup(words) - 1
    Gather(titles, indices)             -> StringLookup(indices), inverted

Source: tensorflow/core/kernels/lookup_table_op.cc.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import Node, Table, TracedFunctions
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.report import AS_NUMBER, AS_TEXT

FIND, SIZE = "LookupTableFind", "LookupTableSize"
GATHERS = "Gather", "GatherV2", "ResourceGather"
COMPARISONS = "Equal", "NotEqual"
CHOICES = "Select", "SelectV2"
HASHES = "StringToHashBucketFast", "StringToHashBucketStrong"
STRINGS, INTEGERS = LOOKUPS = "StringLookup", "IntegerLookup"
# Names of layers that no scope of the graph names.
NAMES = {STRINGS: "string_lookup", INTEGERS: "integer_lookup", "Hashing": "hashing"}
OF_TABLES = "None_", "hash_table_"  # scopes of the tables themselves
OTHER_WORDS = "[UNK]"  # stands for those that are not in a vocabulary


class Tables:
    """The lookup layers of a file; if texts are not kept, numbers replace them."""

    def __init__(self, traced: TracedFunctions, *, keeps_texts: bool) -> None:
        self._traced, self._keeps_texts = traced, keeps_texts
        self._specs: dict[tuple[str, str], ir.LayerSpec] = {}  # by class and config

    def look_up(
        self, node: Node, inputs: Sequence[ir.Value], steps: ir.Steps
    ) -> ir.Value | None:
        """Add the steps of a look-up; return its value, None for any other node."""
        emit = _Emitter(node, steps, self._specs)
        if node.op.startswith(SIZE):
            return ir.Constant(np.int64(len(self._table(inputs[0]).keys)))
        if node.op.startswith(FIND):
            return self._find(emit, self._table(inputs[0]), *inputs[1:])
        if node.op in GATHERS:
            texts = self._texts(inputs[0])
            return None if texts is None else self._text(emit, inputs[1], [*texts])
        if node.op == AS_TEXT and not self._keeps_texts:
            return emit.op(AS_NUMBER, inputs[0])
        if node.op in HASHES:
            salt = node.attributes.get("key")
            config = {"num_bins": node.attributes["num_buckets"]}
            config |= {"salt": [*salt]} if salt else {}
            return emit.call("Hashing", config, inputs[0])
        if node.op in COMPARISONS:
            return _compared(emit, *inputs)
        return _masked(emit, *inputs) if node.op in CHOICES else None

    def numbered(self, inputs: list[ir.Value]) -> list[ir.Value]:
        """Return the inputs of another op, texts as their positions if not kept."""
        return inputs if self._keeps_texts else [*map(_numbered, inputs)]

    def _table(self, value: ir.Value) -> Table:
        table = None
        if isinstance(value, ir.Resource):
            table = self._traced.tables.get(value.number)
        if table is None or not len(table.keys):
            raise LegacyModelError(
                "the function that it recorded looks words up in a table whose content "
                "is not in the file.",
                hints.BUILD_LOOKUPS,
            )
        return table

    def _find(
        self, emit: "_Emitter", table: Table, keys: ir.Value, default: ir.Value
    ) -> ir.Value:
        other = ir.constant(default)
        if other is None:
            raise LegacyModelError(
                f"{emit.node.name!r} computes the value of words that are not in its "
                "table; a lookup layer has a constant for them.",
                hints.BUILD_LOOKUPS,
            )
        words = ir.constant(keys)
        if words is not None:
            return ir.Constant(table.find(words, other))
        if table.values.dtype.kind != "O":
            return _number(emit, table, keys, other)
        if not self._keeps_texts:
            return keys
        texts = [*dict.fromkeys([*table.values.tolist(), other.item()])]
        position = {text: i for i, text in enumerate(texts)}
        numbers = np.array([position[text] for text in table.values.tolist()])
        last = np.array(position[other.item()])
        positions = _number(emit, Table(table.keys, numbers), keys, last)
        return self._text(emit, positions, texts)

    def _texts(self, value: ir.Value) -> Array | None:
        """Return the texts in a one-dimensional constant or variable, or None."""
        array = ir.constant(value)
        if isinstance(value, ir.VariableRef):
            weight = self._traced.variables[value.variable]
            array = weight.read() if weight.dtype.kind == "O" else None
        is_texts = array is not None and array.dtype.kind == "O" and array.ndim == 1
        return array if is_texts else None

    def _text(
        self, emit: "_Emitter", numbers: ir.Value, texts: list[bytes]
    ) -> ir.Value:
        """Return texts by their positions, or these if texts are not kept."""
        if not self._keeps_texts:
            return numbers
        unique = [*dict.fromkeys(texts)]
        if len(unique) < len(texts):
            position = {text: i for i, text in enumerate(unique)}
            numbers = emit.at(numbers, np.array([position[text] for text in texts]))
        config = _config(unique, num_oov_indices=0, invert=True)
        return emit.call(STRINGS, config, numbers)


@dataclasses.dataclass(frozen=True)
class _Emitter:
    """Adds the steps of one node."""

    node: Node
    steps: ir.Steps
    specs: dict[tuple[str, str], ir.LayerSpec]  # equal configs are one layer

    def op(self, op: str, *inputs: ir.Value) -> ir.StepOutput:
        return self.steps.op(self.node.name, op, *inputs)

    def call(self, class_name: str, config: Config, value: ir.Value) -> ir.StepOutput:
        *scopes, _ = self.node.name.split("/")
        named = (name for name in scopes[::-1] if not name.startswith(OF_TABLES))
        spec = ir.LayerSpec(next(named, NAMES[class_name]), class_name, config)
        spec = self.specs.setdefault((class_name, repr(config)), spec)
        return self.steps.add(ir.CallStep(spec, value))

    def at(self, numbers: ir.Value, values: Array) -> ir.StepOutput:
        """Return the values at some positions."""
        axis = ir.Constant(np.int32(0))
        return self.op("GatherV2", ir.Constant(values), numbers, axis)

    def lookup(self, value: ir.Value) -> ir.CallStep | None:
        """Return the call of a lookup layer that makes a value, or None."""
        step = self.steps[value.step] if isinstance(value, ir.StepOutput) else None
        if isinstance(step, ir.CallStep) and step.spec.class_name in LOOKUPS:
            return step
        return None


def _config(keys: Sequence[Any], **others: Any) -> Config:
    """Return the config of a lookup layer; keys out of its table have the index 0."""
    budget.work(budget.ITEM * len(keys))
    unused: Iterator[Any] = itertools.count(-1, -1)
    if isinstance(keys[0], bytes):
        unused = itertools.accumulate(itertools.repeat("_"), initial=OTHER_WORDS)
    vocabulary = [_decoded(k) if isinstance(k, bytes) else int(k) for k in keys]
    used = {*vocabulary}
    return {
        "mask_token": None,
        "num_oov_indices": 1,
        "oov_token": next(token for token in unused if token not in used),
        "vocabulary": vocabulary,
        **others,
    }


def _number(emit: _Emitter, table: Table, keys: ir.Value, other: Array) -> ir.Value:
    """Return the numbers of some keys, or rows of numbers."""
    if table.keys.dtype.kind not in "iO":
        raise LegacyModelError(f"a table has keys of type {table.keys.dtype}.")
    class_name = STRINGS if table.keys.dtype.kind == "O" else INTEGERS
    values, other = table.values, np.asarray(other, table.values.dtype)
    if not _follow(values, other):
        indices = emit.call(class_name, _config(table.keys.tolist()), keys)
        return emit.at(indices, np.concatenate([other[None], values]))
    in_order = table.keys[np.argsort(values)].tolist()
    indices = emit.call(class_name, _config(in_order), keys)
    return emit.op("AddV2", indices, ir.Constant(other)) if other else indices


def _follow(values: Array, other: Array) -> bool:
    """Return whether values count up from the value of unknown words, as in layers."""
    if values.ndim != 1 or values.dtype.kind != "i":
        return False
    return np.array_equal(np.sort(values), other + np.arange(1, len(values) + 1))


def _numbered(value: ir.Value) -> ir.Value:
    """Return positions in place of constant texts; other values stay as they are."""
    array = ir.constant(value)
    if array is None or array.dtype.kind != "O":
        return value
    return ir.Constant(np.arange(array.size).reshape(array.shape))


def _compared(emit: _Emitter, left: ir.Value, right: ir.Value) -> ir.Value | None:
    """Compare texts with one text, by a lookup layer with a vocabulary of one."""
    text, texts = ir.constant(left), right
    if text is None:
        text, texts = ir.constant(right), left
    if text is None or text.dtype.kind != "O" or text.ndim:
        return None
    indices = emit.call(STRINGS, _config([text.item()]), texts)
    return emit.op(emit.node.op, indices, ir.Constant(np.int64(1)))


def _masked(emit: _Emitter, *inputs: ir.Value) -> ir.Value | None:
    """Return a look-up with mask token: SelectV2(words == mask, 0, lookup + 1)."""
    is_mask, moved = (ir.op_of(inputs[i], emit.steps) for i in (0, 2))
    if not ir.is_op(is_mask, "Equal") or not ir.is_op(moved, "AddV2"):
        return None
    mask, lookup = (emit.lookup(step.inputs[0]) for step in (is_mask, moved))
    if mask is None or lookup is None or mask.argument != lookup.argument:
        return None
    constants = inputs[1], is_mask.inputs[1], moved.inputs[1]
    if [*map(ir.constant, constants)] != [0, 1, 1]:
        return None
    (token,) = mask.spec.config["vocabulary"]
    config = {**lookup.spec.config, "mask_token": token}
    return emit.call(lookup.spec.class_name, config, lookup.argument)


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise LegacyModelError(f"the token {text!r}: {error}.") from error
