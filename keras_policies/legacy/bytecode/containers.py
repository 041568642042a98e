"""Instructions that make tuples, dicts and slices, or take items out of a value."""

from typing import Any

from keras_policies.legacy.bytecode import values
from keras_policies.legacy.bytecode.instructions import Instruction
from keras_policies.legacy.bytecode.machine import Frame, handles


@handles("SUBSCRIPT")
def _subscript(frame: Frame, one: Instruction) -> None:
    frame.emit("subscript", *frame.pop(2))


@handles("BINARY_SLICE")
def _between(frame: Frame, one: Instruction) -> None:
    value, start, stop = frame.pop(3)
    frame.emit("subscript", value, slice(start, stop))


@handles("SLICE")
def _slice_of_2(frame: Frame, one: Instruction) -> None:
    """Take `x[:]`, `x[a:]`, `x[:b]` or `x[a:b]`, as only Python 2 has it."""
    has_start, has_stop = one.argument & 1, one.argument & 2
    value, *bounds = frame.pop(1 + bool(has_start) + bool(has_stop))
    start = bounds[0] if has_start else None
    frame.emit("subscript", value, slice(start, bounds[-1] if has_stop else None))


@handles("BUILD_SLICE")
def _slice(frame: Frame, one: Instruction) -> None:
    frame.push(slice(*frame.pop(one.argument)))


@handles("BUILD_TUPLE")
def _tuple(frame: Frame, one: Instruction) -> None:
    frame.push(frame.pop(one.argument))


@handles("LIST_APPEND")
def _append(frame: Frame, one: Instruction) -> None:
    item = frame.stack.pop()
    _extended(frame, one.argument, (item,))


@handles("LIST_EXTEND")
def _extend(frame: Frame, one: Instruction) -> None:
    items = frame.stack.pop()
    if not isinstance(items, tuple):
        raise ValueError("a list extended by a value that is computed")
    _extended(frame, one.argument, items)


def _extended(frame: Frame, place: int, items: tuple[Any, ...]) -> None:
    found = frame.stack[-place]
    if not isinstance(found, tuple):
        raise ValueError("items added to what is no list")
    frame.stack[-place] = (*found, *items)
    values.check_size(frame.stack[-place])


@handles("BUILD_MAP")
def _map(frame: Frame, one: Instruction) -> None:
    items = () if frame.code.python == "2.7" else frame.pop(2 * one.argument)
    frame.push(dict_of(items[::2], items[1::2]))


@handles("BUILD_CONST_KEY_MAP")
def _map_of_keys(frame: Frame, one: Instruction) -> None:
    keys = frame.stack.pop()
    frame.push(dict_of(keys, frame.pop(one.argument)))


@handles("STORE_MAP")
def _store_map(frame: Frame, one: Instruction) -> None:
    found, value, key = frame.pop(3)
    frame.push({**found, **dict_of((key,), (value,))})


def dict_of(keys: tuple[Any, ...], items: tuple[Any, ...]) -> dict[str, Any]:
    """Return a dict, or raise ValueError if a key is no text."""
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("a dict whose keys are no texts")
    return dict(zip(keys, items, strict=True))


@handles("UNPACK_SEQUENCE")
def _unpack(frame: Frame, one: Instruction) -> None:
    value, count = frame.stack.pop(), one.argument
    if not isinstance(value, tuple):
        if count > values.MAX_ITEMS:
            raise ValueError(f"{count} values unpacked")
        found = frame.follower.emit("python.unpack", value, count)
        subscript = "python.subscript"
        value = tuple(frame.follower.emit(subscript, found, i) for i in range(count))
    if len(value) != count:
        raise ValueError(f"{len(value)} values, where {count} are expected")
    frame.stack += reversed(value)
