"""Look-ups in tables, and of texts, as the stock layers that do them.

    LookupTableFindV2(table, words, -1) -> StringLookup(words) - 1
    Gather(titles, indices)             -> StringLookup(indices), inverted

Source: tensorflow/core/kernels/lookup_table_op.cc.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Array, Config
from keras_policies.legacy.base.traced_functions import Node, Table, TracedFunctions
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction.steps import (
    CallStep,
    Constant,
    LayerSpec,
    OpStep,
    Resource,
    Step,
    StepOutput,
    Value,
    VariableRef,
    constant,
    is_op,
    op_of,
)

FIND, SIZE = "LookupTableFind", "LookupTableSize"
GATHERS = "Gather", "GatherV2", "ResourceGather"
COMPARISONS = "Equal", "NotEqual"
CHOICES = "Select", "SelectV2"
HASH = "StringToHashBucketFast"
AS_TEXT = "AsString"
STRINGS, INTEGERS = "StringLookup", "IntegerLookup"
# Names of layers that no scope of the graph names.
NAMES = {STRINGS: "string_lookup", INTEGERS: "integer_lookup", "Hashing": "hashing"}
OF_TABLES = "None_", "hash_table_"  # scopes of the tables themselves
OTHER_WORDS = "[UNK]"


class Tables:
    """The layers that look up what the tables of a file hold.

    Args:
        recorded: has the content of the tables.
        keeps_texts: whether results that are texts are looked up; otherwise they are
            the numbers that the texts belong to.
    """

    def __init__(self, traced: TracedFunctions, *, keeps_texts: bool) -> None:
        self._recorded, self._keeps_texts = traced, keeps_texts
        self._parts: dict[tuple[str, str], LayerSpec] = {}  # by class and config

    def made(
        self, node: Node, inputs: Sequence[Value], steps: list[Step]
    ) -> Value | None:
        """Return what a node gives, after adding its steps; None if it is no look-up.

        Raises:
            LegacyModelError: if it uses a table whose content is not in the file.
        """
        work = _Work(node, steps, self._part)
        if node.op.startswith(SIZE):
            return Constant(np.int64(len(self._table(inputs[0]).keys)))
        if node.op.startswith(FIND):
            return self._found(work, self._table(inputs[0]), *inputs[1:])
        if node.op in GATHERS:
            texts = self._texts(inputs[0])
            return None if texts is None else self._text(work, inputs[1], [*texts])
        if node.op == AS_TEXT and not self._keeps_texts:
            return inputs[0]
        if node.op == HASH:
            config = {"num_bins": node.attributes["num_buckets"]}
            return work.call("Hashing", config, inputs[0])
        if node.op in COMPARISONS:
            return _compared(work, *inputs)
        return _masked(work, *inputs) if node.op in CHOICES else None

    def numbered(self, inputs: list[Value]) -> list[Value]:
        """Return the inputs of another op, texts as their positions if not kept."""
        return inputs if self._keeps_texts else [*map(_numbered, inputs)]

    def _part(self, name: str, class_name: str, config: Config) -> LayerSpec:
        """Return the layer of a config, the same one for an equal config."""
        key = class_name, repr(config)
        return self._parts.setdefault(key, LayerSpec(name, class_name, config))

    def _table(self, value: Value) -> Table:
        found = None
        if isinstance(value, Resource):
            found = self._recorded.tables.get(value.number)
        if found is None or not len(found.keys):
            raise LegacyModelError(
                "the function that it recorded looks words up in a table whose content "
                "is not in the file.",
                hints.BUILD_LOOKUPS,
            )
        return found

    def _found(self, work: "_Work", table: Table, keys: Value, default: Value) -> Value:
        other = constant(default)
        if other is None:
            raise LegacyModelError(
                f"{work.node.name!r} computes the value of words that are not in its "
                "table; a lookup layer has a constant for them.",
                hints.BUILD_LOOKUPS,
            )
        known = constant(keys)
        if known is not None:
            return Constant(table.find(known, other))
        if table.values.dtype.kind != "O":
            return _number(work, table, keys, other)
        if not self._keeps_texts:
            return keys
        texts = [*dict.fromkeys([*table.values.tolist(), other.item()])]
        position = {text: i for i, text in enumerate(texts)}
        numbers = np.array([position[text] for text in table.values.tolist()])
        last = np.array(position[other.item()])
        found = _number(work, Table(table.keys, numbers), keys, last)
        return self._text(work, found, texts)

    def _texts(self, value: Value) -> Array | None:
        """Return the texts that a value is, along one axis, or None."""
        found = constant(value)
        if isinstance(value, VariableRef):
            weight = self._recorded.variables[value.variable]
            found = weight.read() if weight.dtype.kind == "O" else None
        is_texts = found is not None and found.dtype.kind == "O" and found.ndim == 1
        return found if is_texts else None

    def _text(self, work: "_Work", numbers: Value, texts: list[bytes]) -> Value:
        """Return the texts at some positions, or these where texts are not kept."""
        if not self._keeps_texts:
            return numbers
        unique = [*dict.fromkeys(texts)]
        if len(unique) < len(texts):
            position = {text: i for i, text in enumerate(unique)}
            numbers = work.at(numbers, np.array([position[text] for text in texts]))
        return work.call(
            STRINGS, _config(unique, num_oov_indices=0, invert=True), numbers
        )


class _Work:
    """Adds the steps of one node."""

    def __init__(
        self,
        node: Node,
        steps: list[Step],
        part: Callable[[str, str, Config], LayerSpec],
    ) -> None:
        self.node, self.steps, self._part = node, steps, part

    def _add(self, step: Step) -> StepOutput:
        self.steps.append(step)
        return StepOutput(len(self.steps) - 1)

    def op(self, op: str, *inputs: Value) -> StepOutput:
        return self._add(OpStep(self.node.name, op, {}, inputs))

    def call(self, class_name: str, config: Config, value: Value) -> StepOutput:
        scopes = [
            n for n in self.node.name.split("/")[:-1] if not n.startswith(OF_TABLES)
        ]
        name = scopes[-1] if scopes else NAMES[class_name]
        return self._add(CallStep(self._part(name, class_name, config), value))

    def at(self, numbers: Value, values: Array) -> StepOutput:
        """Return the values at some positions."""
        return self.op("GatherV2", Constant(values), numbers, Constant(np.int32(0)))

    def lookup(self, value: Value) -> CallStep | None:
        """Return the call of a lookup layer that makes a value, or None."""
        step = self.steps[value.step] if isinstance(value, StepOutput) else None
        if isinstance(step, CallStep) and step.part.class_name in (STRINGS, INTEGERS):
            return step
        return None


def _config(keys: Sequence[Any], **others: Any) -> Config:
    """Return the config of a lookup layer; keys out of its table have the index 0."""
    budget.work(budget.ITEM * len(keys))
    if isinstance(keys[0], bytes):
        words = [_decoded(key) for key in keys]
        others = {"oov_token": _unused_word(words), **others}
        return {"mask_token": None, "num_oov_indices": 1, "vocabulary": words, **others}
    numbers = [int(key) for key in keys]
    taken = {*numbers}
    unused = next(n for n in itertools.count(-1, -1) if n not in taken)
    others = {"oov_token": unused, **others}
    return {"mask_token": None, "num_oov_indices": 1, "vocabulary": numbers, **others}


def _number(work: _Work, table: Table, keys: Value, other: Array) -> Value:
    """Return the numbers of some keys, or rows of numbers."""
    if table.keys.dtype.kind not in "iO":
        raise LegacyModelError(f"a table has keys of type {table.keys.dtype}.")
    class_name = STRINGS if table.keys.dtype.kind == "O" else INTEGERS
    values, other = table.values, np.asarray(other, table.values.dtype)
    if not _follow(values, other):
        found = work.call(class_name, _config(table.keys.tolist()), keys)
        return work.at(found, np.concatenate([other[None], values]))
    in_order = table.keys[np.argsort(values)].tolist()
    found = work.call(class_name, _config(in_order), keys)
    return work.op("AddV2", found, Constant(other)) if other else found


def _follow(values: Array, other: Array) -> bool:
    """Return whether values count on from that of unknown words, as in a layer."""
    if values.ndim != 1 or values.dtype.kind != "i":
        return False
    return np.array_equal(np.sort(values), other + np.arange(1, len(values) + 1))


def _numbered(value: Value) -> Value:
    """Return the positions of the texts that a constant is, or the value."""
    found = constant(value)
    if found is None or found.dtype.kind != "O":
        return value
    return Constant(np.arange(found.size).reshape(found.shape))


def _compared(work: _Work, one: Value, other: Value) -> Value | None:
    """Return whether texts are equal to one, by a lookup layer that knows it alone."""
    text, texts = constant(one), other
    if text is None:
        text, texts = constant(other), one
    if text is None or text.dtype.kind != "O" or text.ndim:
        return None
    found = work.call(STRINGS, _config([text.item()]), texts)
    return work.op(work.node.op, found, Constant(np.int64(1)))


def _masked(work: _Work, *inputs: Value) -> Value | None:
    """Return a look-up with a mask token.

    It is recorded as SelectV2(words == mask, 0, StringLookup(words) + 1).
    """
    is_mask, moved = (op_of(inputs[i], work.steps) for i in (0, 2))
    if not is_op(is_mask, "Equal") or not is_op(moved, "AddV2"):
        return None
    mask, lookup = (work.lookup(step.inputs[0]) for step in (is_mask, moved))
    if mask is None or lookup is None or mask.argument != lookup.argument:
        return None
    known = [
        constant(inputs[1]),
        constant(is_mask.inputs[1]),
        constant(moved.inputs[1]),
    ]
    if known != [0, 1, 1]:
        return None
    (token,) = mask.part.config["vocabulary"]
    config = {**lookup.part.config, "mask_token": token}
    return work.call(lookup.part.class_name, config, lookup.argument)


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise LegacyModelError(f"the token {text!r}: {error}.") from error


def _unused_word(words: Sequence[str]) -> str:
    """Return a word that stands for those that are not in a vocabulary."""
    name, taken = OTHER_WORDS, {*words}
    while name in taken:
        name += "_"
    return name
