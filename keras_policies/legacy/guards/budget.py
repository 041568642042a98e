"""Limits the memory, the work and the numbers of objects that a file asks for.

A config of a few bytes can ask for a layer of a billion units, and a graph of a few
nodes for a product of matrices that takes an hour. Whatever a file makes this package
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

# Prices of work, in about microseconds. Work is counted before it is done.
ITEM = 0.5  # value that is inspected
STEP = 4  # instruction of code
OP = 450  # that Keras makes
RETRY = 1  # of a call that Keras cannot make yet, for each tensor that it takes
NUMBER = 0.005  # that numpy computes
COMPILED = 150_000  # function of Keras on arrays of new shapes, which jax compiles
NODE = 500  # of a graph that is run on arrays, and of the model that is called
COPY = 0.02  # value that is only copied

_left: contextvars.ContextVar[float] = contextvars.ContextVar("left", default=math.inf)
_work: contextvars.ContextVar[float] = contextvars.ContextVar("work", default=math.inf)


@contextlib.contextmanager
def of(size: int) -> Iterator[None]:
    """Limit what `spend` and `work` allow in this context to what a file explains.

    `size` is that of the file in bytes. Inside another such context it does nothing.
    """
    if _left.get() < math.inf:
        yield
        return
    with anew(size):
        yield


@contextlib.contextmanager
def anew(size: int) -> Iterator[None]:
    """Set the same limits again, also inside such a context."""
    memory = _left.set(limits.MEMORY_PER_BYTE * size + limits.SMALL_MEMORY_BYTES)
    worked = _work.set(limits.WORK_PER_BYTE * size + limits.SMALL_WORK)
    try:
        yield
    finally:
        _left.reset(memory)
        _work.reset(worked)


def memory_left() -> float:
    """Return how many bytes may still be held."""
    return _left.get()


def free(size: float) -> None:
    """Give back the bytes of arrays that were charged and are no longer held."""
    if _left.get() < math.inf:
        _left.set(_left.get() + size)


def work(cost: float) -> None:
    """Raise `LimitError` if the size of a file does not explain the work it asks for.

    The cost is that of `ITEM`, `STEP` or `OP`, times their number.
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
    `computed` is the count of numbers computed for it, if larger.
    """
    remaining, size = _left.get(), count * itemsize
    if not 0 <= size < math.inf:  # also refuses NaN
        raise LimitError(f"corrupt: the config asks for an array of {size} bytes.")
    if size > remaining:
        told = size if size < limits.TOLD_BYTES else f"over {limits.TOLD_BYTES}"
        raise LimitError(
            f"corrupt: the config asks for an array of {told} bytes, more than the "
            "weights in the file explain."
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
    """Raises `LimitError` when a file asks for more of something than it may.

    Args:
        most: int, how many are allowed.
        what: str, what is counted, in plural, as the error names it.

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
        """Count `count` more, which cannot be negative or NaN."""
        if not 0 <= count <= self._left:
            self._left = 0
            reason = (
                f"the file has more than {self.most} {self.what}, the safety limit."
            )
            raise LimitError(reason)
        self._left -= count


def layer_path(prefix: str, name: str) -> str:
    """Return the path of a layer; charge it, since each layer below repeats it."""
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

    Keras runs the layers of a model once to build it, and again for each call of it: 20
    models in each other, each calling the next one twice, run a million layers.

    Raises:
        LimitError: if they are too many.
    """
    what = "runs of layers in models that call each other"
    limit = Limit(limits.LAYER_RUNS, what)
    return _runs(config, limit) if isinstance(config, dict) else 0


def _runs(layer: Config, limit: Limit) -> int:
    """Return how many layers all calls of a layer run, itself or those in it."""
    config, nodes = layer.get("config"), layer.get("inbound_nodes")
    wrapped = config.get("layer") if isinstance(config, dict) else None
    inner = [wrapped] if isinstance(wrapped, dict) else inner_layers(layer)
    size = sum(_runs(item, limit) for item in inner)
    if is_program(layer) and isinstance(config, dict):
        size = int(config.get("runs", 0))
    limit.spend(size)
    calls = len(nodes) if isinstance(nodes, list) else 1
    return max(1, calls) * max(1, size)
