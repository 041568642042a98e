"""Replaces functions of Keras while a context is open, and tries stock Keras first."""

import collections
import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

Function = Callable[..., Any]  # of Keras, whose types nothing declares
Owner = type | types.ModuleType
Place = tuple[Owner, str]  # with the name of the attribute


class Inside(threading.local):
    """A context that is true while this thread is inside it."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1

    def __bool__(self) -> bool:
        return self.depth > 0


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an error. Python 3.10 keeps it, but does not show it."""
    notes = [*getattr(error, "__notes__", ()), text]
    error.__notes__ = notes


# Inside, an error of stock Keras is final: there is no second try.
as_stock = Inside()
Made = TypeVar("Made")


def second_try(first: Callable[[], Made], second: Callable[[], Made]) -> Made:
    """Return `first()`, a call of stock Keras, or `second()` if that fails.

    If both fail, it raises the error of stock Keras, with a note.
    """
    if as_stock:
        return first()
    try:
        with as_stock:
            return first()
    except Exception as error:
        try:
            return second()
        except Exception as ours:
            reason = f"{type(ours).__name__}: {ours}"
            add_note(error, f"keras_policies cannot read it either: {reason}")
        raise


def owner_of(cls: type, attribute: str) -> type:
    """Return the class, `cls` or one that it inherits from, that defines a member.

    Keras compares members of classes to find out what users override, so a member has
    to be replaced where it is defined.
    """
    return next(base for base in cls.__mro__ if attribute in vars(base))


# Place -> the function that this thread calls there.
_here: ContextVar[Mapping[Place, Function]] = ContextVar(
    "_here", default=types.MappingProxyType({})
)
# Place -> the function that asks `_here`; the number of open contexts in all threads.
_dispatchers: dict[Place, Function] = {}
_open: collections.Counter[Place] = collections.Counter()
_lock = threading.Lock()


@contextlib.contextmanager
def patched(owner: Owner, attribute: str, function: Function) -> Iterator[None]:
    """Replace a function of Keras in this thread while the context is open.

    `function` takes the stock function first, which other threads still call. When no
    thread is inside any more, the attribute is restored.
    """
    place = owner, attribute
    with _lock:
        _open[place] += 1
        if _open[place] == 1:
            _dispatchers[place] = _dispatcher(place)
            setattr(owner, attribute, _dispatchers[place])
    token = _here.set({**_here.get(), place: function})
    try:
        yield
    finally:
        _here.reset(token)
        with _lock:
            _open[place] -= 1
            dispatch = None if _open[place] else _dispatchers.pop(place)
            # Somebody else may have replaced it since; their function calls stock's.
            if dispatch and inspect.getattr_static(owner, attribute) is dispatch:
                setattr(owner, attribute, vars(dispatch)["__wrapped__"])


def _dispatcher(place: Place) -> Function:
    """Return a function that calls this thread's function for a place."""
    stock = inspect.getattr_static(*place)

    @functools.wraps(stock)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        function = _here.get().get(place)
        return function(stock, *args, **kwargs) if function else stock(*args, **kwargs)

    # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
    vars(dispatch).update(__signature__=inspect.signature(stock))
    return dispatch
