"""Places of the slices that a partitioned variable is stored in.

Each slice is a tensor of the checkpoint, whose key holds the name of the variable and
the place. Sources: tensorflow/core/util/saved_tensor_slice_util.cc,
tensorflow/core/lib/strings/ordered_code.cc.
"""

from typing import TypeAlias

from keras_policies.legacy.readers.checkpoint.protos import Message

Place: TypeAlias = tuple[slice, ...]  # one for each axis
WHOLE = 0, -1  # the start and the length of a slice that is as long as its axis


def place(parsed: Message, shape: tuple[int, ...]) -> Place | None:
    """Return the place that a message `Slice` says, or None if it is not in the shape.

    A whole axis has no length there.
    """
    ends = []
    for extent in parsed.extent:
        is_whole = not extent.HasField("length")
        ends.append(slice(None) if is_whole else _slice(extent.start, extent.length))
    is_inside = len(ends) == len(shape) and all(map(_is_inside, ends, shape))
    return tuple(ends) if is_inside else None


def of_offsets(parsed: Message) -> Place:
    """Return the place that a message `SliceInfo` says."""
    pairs = zip(parsed.var_offset, parsed.var_shape, strict=True)
    return tuple(_slice(start, length) for start, length in pairs)


def _slice(start: int, length: int) -> slice:
    return slice(start, start + length)


def _is_inside(axis: slice, size: int) -> bool:
    start, stop, _ = axis.indices(size)
    return axis == slice(None) or ((axis.start, axis.stop) == (start, stop) != (0, 0))


def sizes(found: Place, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the values at a place."""
    every = (axis.indices(n) for axis, n in zip(found, shape, strict=True))
    return tuple(stop - start for start, stop, _ in every)


def key(name: str, found: Place) -> bytes:
    r"""Return the key of a slice.

    Example:
        >>> key("w", (slice(None), slice(3, 5)))
        b'\x00w\x00\x01\x01\x02\x80\x7f\x83\x82'
    """
    text = name.encode().replace(b"\0", b"\0\xff")
    ends = [
        WHOLE if axis == slice(None) else (axis.start, axis.stop - axis.start)
        for axis in found
    ]
    rank = bytes([1, len(ends)]) if ends else b"\0"
    numbers = b"".join(_number(number) for pair in ends for number in pair)
    return b"\0" + text + b"\0\1" + rank + numbers


def _number(value: int) -> bytes:
    """Return a signed integer so that the bytes sort as the integers do."""
    length = (value if value >= 0 else ~value).bit_length() // 7 + 1
    header = ((1 << length) - 1) << 7 * length
    return (value % (1 << 8 * length) ^ header).to_bytes(length, "big")
