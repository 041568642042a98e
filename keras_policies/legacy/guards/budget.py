"""Limits the memory, the work and the number of objects that a file asks for.

A config of a few bytes can ask for a layer with a billion units, and a graph of a few
nodes for a matrix product that takes an hour. Whatever a file makes this package
compute is charged here before it is computed. The limits are in `limits`.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import inner_layers, is_program
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.guards import limits

# Prices of work, in microseconds (roughly). Work is charged before it is done.
ITEM = 0.5  # a value that is inspected
STEP = 4  # a bytecode instruction
OP = 450  # an op that Keras creates
PAIR = 0.06  # of tensors that a layer takes in one call
WAY = 4  # in which weights may be listed, at one of their parts
ASSIGNMENT = 20  # to a variable, before a read of it
NUMBER = 0.005  # a number that numpy computes
COMPILED = 150_000  # a Keras function on arrays of new shapes, which jax compiles
NODE = 500  # a node of a graph that is run on arrays, or of a model that is called
COPY = 0.02  # a value that is only copied

_left: contextvars.ContextVar[float] = contextvars.ContextVar("left", default=math.inf)
_work: contextvars.ContextVar[float] = contextvars.ContextVar("work", default=math.inf)


@contextlib.contextmanager
def of(size: int) -> Iterator[None]:
    """Limit what `spend` and `work` allow in this context by the size of a file.

    `size` is in bytes. Inside another such context, this does nothing.
    """
    if _left.get() < math.inf:
        yield
        return
    with anew(size):
        yield


@contextlib.contextmanager
def anew(size: int) -> Iterator[None]:
    """Like `of`, but also start new limits inside such a context."""
    memory = _left.set(limits.MEMORY_PER_BYTE * size + limits.SMALL_MEMORY_BYTES)
    worked = _work.set(limits.WORK_PER_BYTE * size + limits.SMALL_WORK)
    try:
        yield
    finally:
        _left.reset(memory)
        _work.reset(worked)


def memory_left() -> float:
    """Return how many more bytes may be held."""
    return _left.get()


def free(size: float) -> None:
    """Give back the charged bytes of arrays that are no longer held."""
    if _left.get() < math.inf:
        _left.set(_left.get() + size)


def work(cost: float) -> None:
    """Raise `LimitError` if the size of a file does not explain the work it asks for.

    `cost` is a price, such as `ITEM`, `STEP` or `OP`, times a count.
    """
    remaining = _work.get()
    if not 0 <= cost <= remaining:
        raise LimitError(
            "it asks for more work than the size of the file explains: loops, or "
            "functions that call each other, which would be made of too many ops."
        )
    if remaining < math.inf:
        _work.set(remaining - cost)


def spend(count: float, itemsize: int = 4, computed: float = 0) -> None:
    """Raise `LimitError` if the weights in the file do not explain an array's memory.

    The array has `count` numbers (a float if an op computes it) of `itemsize` bytes.
    `computed` is how many numbers are computed for it, if that is more.
    """
    remaining, size = _left.get(), count * itemsize
    if not 0 <= size < math.inf:  # also refuses NaN
        raise LimitError(f"corrupt: the config asks for an array of {size} bytes.")
    if size > remaining:
        told = size if size < limits.TOLD_BYTES else f"over {limits.TOLD_BYTES}"
        raise LimitError(
            f"the config asks for an array of {told} bytes, more than the weights in "
            "the file explain.",
            "This protects you from files that fill the memory, and cannot be raised; "
            "if tf.keras opens the file, report this error.",
        )
    if remaining < math.inf:
        _left.set(remaining - size)
    work(max(computed, count) * NUMBER)  # in this order, NaN is the larger one


def check_rank(shape: Sequence[int | None]) -> None:
    """Raise `LimitError` if a tensor of this shape has too many axes."""
    if len(shape) > limits.RANK:
        reason = f"a tensor of {len(shape)} axes, expected at most {limits.RANK}."
        raise LimitError(reason)


class Limit:
    """Raises `LimitError` when a file has too many of something.

    `most` are allowed; `what` names them in the plural, for the error.

    Example:
        >>> nodes = Limit(2, "nodes in its functions")
        >>> nodes.spend(2)
        >>> try:
        ...     nodes.spend()
        ... except LimitError as error:
        ...     print(error)
        the file has more than 2 nodes in its functions, the safety limit.
    """

    def __init__(self, most: int, what: str) -> None:
        self.most = most
        self.what = what
        self._left = most

    def spend(self, count: int = 1) -> None:
        """Count `count` more; raise if it is too many, negative or NaN."""
        if not 0 <= count <= self._left:
            self._left = 0
            reason = (
                f"the file has more than {self.most} {self.what}, the safety limit."
            )
            raise LimitError(reason)
        self._left -= count

    def close(self) -> None:
        """Refuse whatever is counted from now on."""
        self._left = 0

    @property
    def spent(self) -> int:
        """int, what was counted so far."""
        return self.most - self._left


def layer_path(prefix: str, name: str) -> str:
    """Return the path of a layer; charge for it, as each layer below repeats it."""
    path = f"{prefix}{name}"
    work(COPY * len(path))
    if len(path) > limits.PATH_CHARACTERS:
        raise LegacyModelError(
            f"the name of a layer is longer than {limits.PATH_CHARACTERS} characters: "
            f"{path[:80]!r}.",
            code="KP201",
        )
    return path


def runs(config: Any) -> int:
    """Return how many layers Keras runs in all calls of a layer or a model.

    Keras runs a model's layers once to build it, and again in each of its calls: 20
    nested models that each call the next one twice run a million layers. Keras also
    runs the layers of a Sequential for each one that it adds. Raise `LimitError` if
    there are too many.
    """
    what = "runs of layers in models that call each other"
    limit = Limit(limits.LAYER_RUNS, what)
    calls = Limit(limits.LAYER_CALLS, "calls of layers")
    return _runs(config, limit, calls) if isinstance(config, dict) else 0


def _runs(layer: Config, limit: Limit, all_calls: Limit) -> int:
    """Return how many layers run in all calls of a layer: itself or its inner ones."""
    config, nodes = layer.get("config"), layer.get("inbound_nodes")
    wrapped = config.get("layer") if isinstance(config, dict) else None
    inner = [wrapped] if isinstance(wrapped, dict) else inner_layers(layer)
    size = sum(_runs(item, limit, all_calls) for item in inner)
    if is_program(layer) and isinstance(config, dict):
        size = int(config.get("runs", 0))
    is_sequential = layer.get("class_name") == "Sequential"
    limit.spend(size * (len(inner) + 1) // 2 if is_sequential else size)
    calls = max(1, len(nodes)) if isinstance(nodes, list) else 1
    all_calls.spend(calls)
    return calls * max(1, size)


def check_inputs(count: int) -> None:
    """Raise if a layer takes too many tensors in one call; charge for them.

    A Concatenate of Keras compares each of them with all others.
    """
    if count > limits.CALL_INPUTS:
        reason = f"it takes {count} tensors, expected at most {limits.CALL_INPUTS}."
        raise LimitError(reason)
    work(PAIR * count**2)
