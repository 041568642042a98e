"""The stack machine of Python, one method for each instruction that is understood.

Source: CPython, Python/ceval.c and Python/bytecodes.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keras_policies.legacy.bytecode import names, values
from keras_policies.legacy.bytecode.code import VERSIONS, Code
from keras_policies.legacy.bytecode.instructions import Instruction, decoded
from keras_policies.legacy.bytecode.values import Cell, Function, Name

if TYPE_CHECKING:
    from keras_policies.legacy.bytecode.follow import Follower

NULL = object()  # what Python 3.11 puts below a function that is called
OLD = "2.7", "3.5"


class Frame:
    """One call of a function: its variables, its stack, and where it is.

    Args:
        follower: what the calls of all functions share.
        function: the one that is called.
        local: its parameters.
    """

    def __init__(
        self, follower: Follower, function: Function, local: Mapping[str, Any]
    ) -> None:
        self.follower = follower
        self.code = code = function.code
        self.local = dict(local)
        self.stack: list[Any] = []
        self.keywords: tuple[str, ...] = ()
        self.position = 0
        self.cells = {name: Cell(local.get(name)) for name in code.cells}
        self.cells |= dict(zip(code.free, function.closure, strict=False))
        self.result: Any = None

    def run(self) -> Any:
        """Return what the function returns, or raise ValueError."""
        instructions = decoded(self.code)
        while True:
            self.follower.step()
            if self.position not in instructions:
                raise ValueError("a jump into the middle of an instruction")
            instruction, self.position = instructions[self.position]
            if instruction.name in ("RETURN_VALUE", "RETURN_CONST"):
                return self._returned(instruction)
            handler = HANDLERS.get(instruction.name)
            if handler is None:
                raise ValueError(
                    f"{instruction.name} of Python {VERSIONS[self.code.python]}, "
                    "which is not followed"
                )
            handler(self, instruction)

    def _returned(self, instruction: Instruction) -> Any:
        if instruction.name == "RETURN_CONST":
            return self.code.constants[instruction.argument]
        return self.stack.pop()

    def pop(self, count: int) -> tuple[Any, ...]:
        """Return the topmost values, the last one first pushed last."""
        if count > len(self.stack) or count < 0:
            raise ValueError("more values than there are")
        items = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return items

    def push(self, value: Any) -> None:
        """Put a value on the stack, unless it is too large."""
        values.check_size(value)
        self.stack.append(value)

    def emit(self, function: str, *args: Any) -> None:
        """Push what a function of Python returns."""
        self.push(self.follower.emit(f"python.{function}", *args))

    def name(self, number: int) -> str:
        """Return a name of the code by its number."""
        return self.code.names[number]

    def jump_if(self, wanted: bool, instruction: Instruction, keep: bool) -> None:
        """Jump if the topmost value is true, or false; it must be known."""
        value = self.stack.pop()
        if not values.is_known(value):
            raise ValueError("a branch on a value that is computed")
        if bool(value) is wanted:
            self.position = instruction.target or 0
            if keep:
                self.stack.append(value)


Handler = Callable[[Frame, Instruction], None]
HANDLERS: dict[str, Handler] = {}


def handles(*instructions: str) -> Callable[[Handler], Handler]:
    """Return a decorator that enters the handler of instructions."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(instructions, handler))
        return handler

    return enter


@handles("NOP", "MAKE_CELL")
def _nothing(frame: Frame, one: Instruction) -> None:
    """Do nothing: cells are there from the start."""


@handles("POP_TOP")
def _pop(frame: Frame, one: Instruction) -> None:
    frame.stack.pop()


@handles("ROT")
def _rotate(frame: Frame, one: Instruction) -> None:
    *below, top = frame.pop(one.argument)
    frame.stack += [top, *below]


@handles("SWAP")
def _swap(frame: Frame, one: Instruction) -> None:
    first, *between, last = frame.pop(one.argument)
    frame.stack += [last, *between, first]


@handles("COPY")
def _copy(frame: Frame, one: Instruction) -> None:
    frame.stack.append(frame.stack[-one.argument])


@handles("COPY_TWO", "COPY_MANY")
def _copy_many(frame: Frame, one: Instruction) -> None:
    frame.stack += frame.stack[-(one.argument or 2) :]


@handles("PUSH_NULL")
def _null(frame: Frame, one: Instruction) -> None:
    frame.stack.append(NULL)


@handles("LOAD_CONST")
def _constant(frame: Frame, one: Instruction) -> None:
    frame.push(frame.code.constants[one.argument])


@handles("LOAD_FAST")
def _load(frame: Frame, one: Instruction) -> None:
    name = frame.code.local[one.argument]
    if name in frame.cells:
        frame.stack.append(frame.cells[name].value)
    else:
        frame.stack.append(frame.local.get(name))


@handles("STORE_FAST")
def _store(frame: Frame, one: Instruction) -> None:
    frame.local[frame.code.local[one.argument]] = frame.stack.pop()


@handles("LOAD_GLOBAL")
def _global(frame: Frame, one: Instruction) -> None:
    number, is_called = one.argument, False
    if frame.code.python in ("3.11", "3.12"):
        number, is_called = number >> 1, bool(number & 1)
    frame.stack += [NULL] * is_called
    name = frame.name(number)
    constants = {"True": True, "False": False, "None": None}  # names in Python 2
    frame.push(constants[name] if name in constants else names.global_name(name))


def _cell(frame: Frame, number: int) -> Cell:
    code = frame.code
    if code.python in ("3.11", "3.12"):
        return frame.cells[code.local[number]]
    return frame.cells[(*code.cells, *code.free)[number]]


@handles("LOAD_DEREF")
def _load_cell(frame: Frame, one: Instruction) -> None:
    frame.stack.append(_cell(frame, one.argument).value)


@handles("LOAD_CLOSURE")
def _closure(frame: Frame, one: Instruction) -> None:
    frame.stack.append(_cell(frame, one.argument))


@handles("STORE_DEREF")
def _store_cell(frame: Frame, one: Instruction) -> None:
    _cell(frame, one.argument).value = frame.stack.pop()


@handles("LOAD_ATTR", "LOAD_METHOD")
def _attribute(frame: Frame, one: Instruction) -> None:
    number, is_called = one.argument, one.name == "LOAD_METHOD"
    if frame.code.python == "3.12":
        number, is_called = number >> 1, bool(number & 1)
    owner = frame.stack.pop()
    frame.stack += [NULL] * is_called
    frame.push(frame.follower.attribute(owner, frame.name(number)))


@handles("UNARY")
def _unary(frame: Frame, one: Instruction) -> None:
    frame.emit("unary", one.symbol, frame.stack.pop())


@handles("BINARY", "COMPARE")
def _binary(frame: Frame, one: Instruction) -> None:
    frame.emit("binary", one.symbol, *frame.pop(2))


@handles("IS", "CONTAINS")
def _is(frame: Frame, one: Instruction) -> None:
    symbol = {"IS": "is", "CONTAINS": "in"}[one.name]
    negated = {"is": "is not", "in": "not in"}[symbol]
    frame.emit("binary", negated if one.argument else symbol, *frame.pop(2))


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
    frame.push(_dict(items[::2], items[1::2]))


@handles("BUILD_CONST_KEY_MAP")
def _map_of_keys(frame: Frame, one: Instruction) -> None:
    keys = frame.stack.pop()
    frame.push(_dict(keys, frame.pop(one.argument)))


@handles("STORE_MAP")
def _store_map(frame: Frame, one: Instruction) -> None:
    found, value, key = frame.pop(3)
    frame.push({**found, **_dict((key,), (value,))})


def _dict(keys: tuple[Any, ...], items: tuple[Any, ...]) -> dict[str, Any]:
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
    named = _dict(pairs[::2], pairs[1::2])
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


@handles("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD")
def _jump(frame: Frame, one: Instruction) -> None:
    frame.position = one.target or 0


@handles("POP_JUMP_IF_FALSE", "JUMP_IF_FALSE_OR_POP")
def _jump_if_false(frame: Frame, one: Instruction) -> None:
    frame.jump_if(False, one, keep=one.name.startswith("JUMP"))


@handles("POP_JUMP_IF_TRUE", "JUMP_IF_TRUE_OR_POP")
def _jump_if_true(frame: Frame, one: Instruction) -> None:
    frame.jump_if(True, one, keep=one.name.startswith("JUMP"))


@handles("GET_ITER")
def _iterator(frame: Frame, one: Instruction) -> None:
    if not isinstance(frame.stack[-1], tuple):
        raise ValueError("a loop over values whose number is not known")


@handles("FOR_ITER")
def _next(frame: Frame, one: Instruction) -> None:
    """Take the next item; what is left of a tuple stands for its iterator."""
    left = frame.stack.pop()
    if not isinstance(left, tuple):
        raise ValueError("a loop over values whose number is not known")
    if left:
        frame.stack += [left[1:], left[0]]
    else:
        frame.position = one.target or 0
