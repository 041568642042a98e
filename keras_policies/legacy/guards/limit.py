"""Counts what a file makes this package do."""

from collections.abc import Sequence

from keras_policies.legacy.base.errors import LimitError

MAX_RANK = 64  # of a tensor, in numpy and torch; a gather can double it each time


def check_rank(shape: Sequence[int | None]) -> None:
    """Raise `LimitError` if a tensor of this shape has too many axes."""
    if len(shape) > MAX_RANK:
        raise LimitError(f"a tensor of {len(shape)} axes, expected at most {MAX_RANK}.")


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
