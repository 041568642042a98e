"""How a function of Keras is replaced by one that asks this package first."""

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
# Takes the stock function, returns the function that stands in its place.
MakeWrapper = Callable[[Function], Function]
Owner = type | types.ModuleType
Place = tuple[Owner, str]  # with the name of the attribute


class Inside(threading.local):
    """A context that is true where this thread is inside of it."""

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


# In it, stock Keras's errors stay: there is no second try.
as_stock = Inside()
Made = TypeVar("Made")


def second_try(first: Callable[[], Made], second: Callable[[], Made]) -> Made:
    """Return `first()`, which is of stock Keras, or `second()` if that fails.

    If both fail, the error is that of stock Keras, with a note.
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


@contextlib.contextmanager
def replaced(owner: Any, attribute: str, value: Any) -> Iterator[None]:
    """Replace `owner.attribute` for as long as the context is open."""
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)


def owner_of(cls: type, attribute: str) -> type:
    """Return the class, `cls` or one that it inherits from, that defines a member.

    Keras compares members of classes to find out what a user has overridden, so they
    are replaced where they are defined.
    """
    return next(base for base in cls.__mro__ if attribute in vars(base))


# Place -> the function that stands there in this thread.
_here: ContextVar[Mapping[Place, Function]] = ContextVar(
    "_here", default=types.MappingProxyType({})
)
# Place -> what asks `_here`, and the contexts of all threads that are open there.
_dispatchers: dict[Place, Function] = {}
_open: collections.Counter[Place] = collections.Counter()
_lock = threading.Lock()


@contextlib.contextmanager
def patched(owner: Owner, attribute: str, function: Function) -> Iterator[None]:
    """Replace a function of Keras, in this thread alone, while the context is open.

    `function` takes the replaced one first, which other threads go on calling. Once no
    thread is inside, the attribute is what it was.
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
            # If others have replaced it since, theirs stays: it calls the stock one.
            if dispatch and inspect.getattr_static(owner, attribute) is dispatch:
                setattr(owner, attribute, vars(dispatch)["__wrapped__"])


def _dispatcher(place: Place) -> Function:
    """Return a function that calls the one which stands at a place in this thread."""
    stock = inspect.getattr_static(*place)

    @functools.wraps(stock)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        function = _here.get().get(place)
        return function(stock, *args, **kwargs) if function else stock(*args, **kwargs)

    # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
    vars(dispatch).update(__signature__=inspect.signature(stock))
    return dispatch


def wrap(owner: Owner, attribute: str, make_wrapper: MakeWrapper) -> None:
    """Replace `owner.attribute` by `make_wrapper(stock)`.

    A second call for the same attribute replaces the first wrapper instead of wrapping
    it, so importing the package twice changes nothing. `private_api` has checked
    that the function, method or class method is there; of a class method, the stock
    function and the new one take the class first.
    """
    static = inspect.getattr_static(owner, attribute)
    is_classmethod = isinstance(static, classmethod)
    current = static.__func__ if is_classmethod else static
    stock = getattr(current, "_keras_policies_stock", current)
    wrapper = functools.wraps(stock)(make_wrapper(stock))
    # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
    signature = inspect.signature(stock)
    vars(wrapper).update(__signature__=signature, _keras_policies_stock=stock)
    setattr(owner, attribute, classmethod(wrapper) if is_classmethod else wrapper)
