"""Instructions that make, find and call functions, and that import modules."""

from typing import Any

from keras_policies.legacy.bytecode import names
from keras_policies.legacy.bytecode.code import Code
from keras_policies.legacy.bytecode.containers import dict_of
from keras_policies.legacy.bytecode.instructions import Instruction
from keras_policies.legacy.bytecode.machine import NULL, Frame, handles
from keras_policies.legacy.bytecode.values import Function, Name

OLD = "2.7", "3.5"


@handles("LOAD_ATTR", "LOAD_METHOD")
def _attribute(frame: Frame, one: Instruction) -> None:
    number, is_called = one.argument, one.name == "LOAD_METHOD"
    if frame.code.python == "3.12":
        number, is_called = number >> 1, bool(number & 1)
    owner = frame.stack.pop()
    frame.stack += [NULL] * is_called
    frame.push(frame.follower.attribute(owner, frame.name(number)))


@handles("KW_NAMES")
def _keywords(frame: Frame, one: Instruction) -> None:
    frame.keywords = _texts(frame.code.constants[one.argument])


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError("names of arguments that are none")
    return value


@handles("CALL_FUNCTION")
def _call_function(frame: Frame, one: Instruction) -> None:
    count = one.argument
    if frame.code.python not in OLD:
        return _called(frame, frame.pop(count + 1), ())
    pairs = frame.pop(2 * (count >> 8))
    items = (*frame.pop((count & 0xFF) + 1), *pairs[1::2])
    return _called(frame, items, _texts(pairs[::2]))


@handles("CALL_FUNCTION_KW")
def _call_keywords(frame: Frame, one: Instruction) -> None:
    keywords = _texts(frame.stack.pop())
    _called(frame, frame.pop(one.argument + 1), keywords)


@handles("CALL")
def _call(frame: Frame, one: Instruction) -> None:
    """Call what Python 3.7 and later have below two values, the first often NULL."""
    items = frame.pop(one.argument + 2)
    keywords, frame.keywords = frame.keywords, ()
    _called(frame, items[1:] if items[0] is NULL else items, keywords)


def _called(frame: Frame, items: tuple[Any, ...], keywords: tuple[str, ...]) -> None:
    """Push what a function returns; `items` are it, and its arguments."""
    function, *args = items
    first = len(args) - len(keywords)
    named = dict(zip(keywords, args[first:], strict=True))
    frame.push(frame.follower.call(function, tuple(args[:first]), named))


@handles("MAKE_FUNCTION", "MAKE_CLOSURE")
def _function(frame: Frame, one: Instruction) -> None:
    python, count = frame.code.python, one.argument
    if python not in ("2.7", "3.11", "3.12"):
        frame.stack.pop()  # its qualified name
    code = frame.stack.pop()
    if not isinstance(code, Code):
        raise ValueError("a function without code")
    if python not in OLD:
        return frame.push(_with_parts(frame, code, count))
    closure = frame.stack.pop() if one.name == "MAKE_CLOSURE" else ()
    pairs = frame.pop(2 * (count >> 8 & 0xFF))
    named = dict_of(pairs[::2], pairs[1::2])
    return frame.push(Function(code, frame.pop(count & 0xFF), named, closure))


def _with_parts(frame: Frame, code: Code, flags: int) -> Function:
    """Return a function with the parts that the bits of a number say are there."""
    closure = frame.stack.pop() if flags & 8 else ()
    if flags & 4:
        frame.stack.pop()  # annotations
    named = frame.stack.pop() if flags & 2 else {}
    defaults = frame.stack.pop() if flags & 1 else ()
    return Function(code, defaults, named, closure)


@handles("IMPORT_NAME")
def _import(frame: Frame, one: Instruction) -> None:
    (_, wanted), path = frame.pop(2), frame.name(one.argument)
    found = names.module(path)
    frame.push(found if wanted else names.module(path.partition(".")[0]))


@handles("IMPORT_FROM")
def _import_from(frame: Frame, one: Instruction) -> None:
    module = frame.stack[-1]
    if not isinstance(module, Name):
        raise ValueError("an import from what is no module")
    frame.push(names.attribute(module, frame.name(one.argument)))
