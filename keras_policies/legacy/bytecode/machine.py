"""The stack machine of Python: a frame, and what each instruction does to it.

Source: CPython, Python/ceval.c and Python/bytecodes.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from keras_policies.legacy.base.programs import Given
from keras_policies.legacy.bytecode import program, values
from keras_policies.legacy.bytecode.instructions import Instruction, decoded
from keras_policies.legacy.bytecode.values import VERSIONS, Cell, Code, Function, Name
from keras_policies.legacy.guards import limits

NULL = object()  # what Python 3.11 puts below a function that is called
OLD = "2.7", "3.5"
CONSTANTS = {"True": True, "False": False, "None": None}  # names in Python 2


class Follower(Protocol):
    """What the frames of all functions share: `follow.Follower`."""

    def step(self) -> None:
        """Count an instruction."""

    def emit(self, function: str | Given, *args: Any, **kwargs: Any) -> Any:
        """Emit a call; return a plain value, or the output of the new step."""

    def attribute(self, owner: Any, name: str) -> Any:
        """Return `owner.name`."""

    def call(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return what a call returns."""


class Frame:
    """One call of a function: its variables, its stack, and where it is."""

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

    def run(self) -> Any:
        """Return what the function returns, or raise ValueError."""
        while True:
            self.follower.step()
            instruction, self.position = decoded(self.code, self.position)
            if instruction.name == "RETURN_VALUE":
                return self.stack.pop()
            if instruction.name == "RETURN_CONST":
                return self.code.constants[instruction.argument]
            handler = HANDLERS.get(instruction.name)
            if handler is None:
                raise ValueError(
                    f"{instruction.name} of Python {VERSIONS[self.code.python]}, "
                    "which is not followed"
                )
            handler(self, instruction)

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

    def cell(self, number: int) -> Cell:
        """Return a variable that functions share, by its number."""
        if self.code.python in ("3.11", "3.12"):
            return self.cells[self.code.local[number]]
        return self.cells[(*self.code.cells, *self.code.free)[number]]

    def extend(self, place: int, items: tuple[Any, ...]) -> None:
        """Add items to a list, which is a tuple here, below the top of the stack."""
        target = self.stack[-place]
        if not isinstance(target, tuple):
            raise ValueError("items added to a value that is not a list")
        self.stack[-place] = (*target, *items)
        values.check_size(self.stack[-place])

    def jump_if(self, instruction: Instruction, *, wanted: bool) -> None:
        """Jump if the topmost value, which must be known, is true, or false."""
        value = self.stack.pop()
        if not values.is_known(value):
            raise ValueError("a branch on a value that is computed")
        if bool(value) is wanted:
            self.position = instruction.target or 0
            if instruction.name.startswith("JUMP"):  # `..._OR_POP`
                self.stack.append(value)

    def call(self, items: tuple[Any, ...], keywords: tuple[str, ...]) -> None:
        """Push what a function returns; `items` are it, and its arguments."""
        function, *args = items
        first = len(args) - len(keywords)
        named = dict(zip(keywords, args[first:], strict=True))
        self.push(self.follower.call(function, tuple(args[:first]), named))


Handler = Callable[[Frame, Instruction], object]


def _load(frame: Frame, op: Instruction) -> None:
    name = frame.code.local[op.argument]
    is_cell = name in frame.cells
    frame.stack.append(frame.cells[name].value if is_cell else frame.local.get(name))


def _store(frame: Frame, op: Instruction) -> None:
    frame.local[frame.code.local[op.argument]] = frame.stack.pop()


def _store_cell(frame: Frame, op: Instruction) -> None:
    frame.cell(op.argument).value = frame.stack.pop()


def _global(frame: Frame, op: Instruction) -> None:
    number, is_called = op.argument, False
    if frame.code.python in ("3.11", "3.12"):
        number, is_called = number >> 1, bool(number & 1)
    frame.stack += [NULL] * is_called
    name = frame.name(number)
    frame.push(CONSTANTS[name] if name in CONSTANTS else program.global_name(name))


def _attribute(frame: Frame, op: Instruction) -> None:
    number, is_called = op.argument, op.name == "LOAD_METHOD"
    if frame.code.python == "3.12":
        number, is_called = number >> 1, bool(number & 1)
    owner = frame.stack.pop()
    frame.stack += [NULL] * is_called
    frame.push(frame.follower.attribute(owner, frame.name(number)))


def _rotate(frame: Frame, op: Instruction) -> None:
    *below, top = frame.pop(op.argument)
    frame.stack += [top, *below]


def _swap(frame: Frame, op: Instruction) -> None:
    first, *between, last = frame.pop(op.argument)
    frame.stack += [last, *between, first]


def _copy_many(frame: Frame, op: Instruction) -> None:
    frame.stack += frame.stack[-(op.argument or 2) :]


def _is_or_in(frame: Frame, op: Instruction) -> None:
    symbols = {"IS": ("is", "is not"), "CONTAINS": ("in", "not in")}[op.name]
    frame.emit("binary", symbols[bool(op.argument)], *frame.pop(2))


def _jump(frame: Frame, op: Instruction) -> None:
    frame.position = op.target or 0


def _check_iterable(frame: Frame) -> None:
    if not isinstance(frame.stack[-1], tuple):
        raise ValueError("a loop over values whose number is not known")


def _next(frame: Frame, op: Instruction) -> None:
    """Take the next item; the rest of a tuple stands for its iterator."""
    _check_iterable(frame)
    remaining = frame.stack.pop()
    if remaining:
        frame.stack += [remaining[1:], remaining[0]]
    else:
        frame.position = op.target or 0


def _slice_of_2(frame: Frame, op: Instruction) -> None:
    """Take `x[:]`, `x[a:]`, `x[:b]` or `x[a:b]`, as only Python 2 has it."""
    has_start, has_stop = op.argument & 1, op.argument & 2
    value, *bounds = frame.pop(1 + bool(has_start) + bool(has_stop))
    start = bounds[0] if has_start else None
    stop = bounds[-1] if has_stop else None
    frame.emit("subscript", value, slice(start, stop))


def _slice(frame: Frame, op: Instruction) -> None:
    value, *bounds = frame.pop(3)
    frame.emit("subscript", value, slice(*bounds))


def _list_extend(frame: Frame, op: Instruction) -> None:
    items = frame.stack.pop()
    if not isinstance(items, tuple):
        raise ValueError("a list extended by a value that is computed")
    frame.extend(op.argument, items)


def _dict_of(keys: tuple[Any, ...], items: tuple[Any, ...]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("a dict whose keys are not strings")
    return dict(zip(keys, items, strict=True))


def _map(frame: Frame, op: Instruction) -> None:
    items = () if frame.code.python == "2.7" else frame.pop(2 * op.argument)
    frame.push(_dict_of(items[::2], items[1::2]))


def _map_of_keys(frame: Frame, op: Instruction) -> None:
    keys = frame.stack.pop()
    frame.push(_dict_of(keys, frame.pop(op.argument)))


def _store_map(frame: Frame, op: Instruction) -> None:
    target, value, key = frame.pop(3)
    frame.push({**target, **_dict_of((key,), (value,))})


def _unpack(frame: Frame, op: Instruction) -> None:
    value, count = frame.stack.pop(), op.argument
    if not isinstance(value, tuple):
        if count > limits.CODE_ITEMS:
            raise ValueError(f"{count} values unpacked")
        emit = frame.follower.emit
        items = emit("python.unpack", value, count)
        value = tuple(emit("python.subscript", items, i) for i in range(count))
    if len(value) != count:
        raise ValueError(f"{len(value)} values, where {count} are expected")
    frame.stack += reversed(value)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError("keyword names that are not strings")
    return value


def _keywords(frame: Frame, op: Instruction) -> None:
    frame.keywords = _names(frame.code.constants[op.argument])


def _call_function(frame: Frame, op: Instruction) -> None:
    count = op.argument
    if frame.code.python not in OLD:
        return frame.call(frame.pop(count + 1), ())
    pairs = frame.pop(2 * (count >> 8))
    items = (*frame.pop((count & 0xFF) + 1), *pairs[1::2])
    return frame.call(items, _names(pairs[::2]))


def _call_keywords(frame: Frame, op: Instruction) -> None:
    keywords = _names(frame.stack.pop())
    frame.call(frame.pop(op.argument + 1), keywords)


def _call(frame: Frame, op: Instruction) -> None:
    """Call what Python 3.7 and later have below two values, the first often NULL."""
    items = frame.pop(op.argument + 2)
    keywords, frame.keywords = frame.keywords, ()
    frame.call(items[1:] if items[0] is NULL else items, keywords)


def _function(frame: Frame, op: Instruction) -> None:
    python, count = frame.code.python, op.argument
    if python not in ("2.7", "3.11", "3.12"):
        frame.stack.pop()  # its qualified name
    code = frame.stack.pop()
    if not isinstance(code, Code):
        raise ValueError("a function without code")
    if python not in OLD:
        return frame.push(_with_parts(frame, code, count))
    closure = frame.stack.pop() if op.name == "MAKE_CLOSURE" else ()
    pairs = frame.pop(2 * (count >> 8 & 0xFF))
    named = _dict_of(pairs[::2], pairs[1::2])
    return frame.push(Function(code, frame.pop(count & 0xFF), named, closure))


def _with_parts(frame: Frame, code: Code, flags: int) -> Function:
    """Return a function with the parts that the bits of a number say are there."""
    closure = frame.stack.pop() if flags & 8 else ()
    if flags & 4:
        frame.stack.pop()  # annotations
    named = frame.stack.pop() if flags & 2 else {}
    defaults = frame.stack.pop() if flags & 1 else ()
    return Function(code, defaults, named, closure)


def _import(frame: Frame, op: Instruction) -> None:
    (_, wanted), path = frame.pop(2), frame.name(op.argument)
    module = program.module(path)
    frame.push(module if wanted else program.module(path.partition(".")[0]))


def _import_from(frame: Frame, op: Instruction) -> None:
    module = frame.stack[-1]
    if not isinstance(module, Name):
        raise ValueError("IMPORT_FROM on a value that is not a module")
    frame.push(program.attribute(module, frame.name(op.argument)))


# Instruction -> what it does; see `instructions.py` for the names.
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(("NOP", "MAKE_CELL"), lambda frame, op: None),
    # The stack and variables.
    "POP_TOP": lambda frame, op: frame.stack.pop(),
    "ROT": _rotate,
    "SWAP": _swap,
    "COPY": lambda frame, op: frame.stack.append(frame.stack[-op.argument]),
    **dict.fromkeys(("COPY_TWO", "COPY_MANY"), _copy_many),
    "PUSH_NULL": lambda frame, op: frame.stack.append(NULL),
    "LOAD_CONST": lambda frame, op: frame.push(frame.code.constants[op.argument]),
    "LOAD_FAST": _load,
    "STORE_FAST": _store,
    "LOAD_GLOBAL": _global,
    "LOAD_DEREF": lambda frame, op: frame.stack.append(frame.cell(op.argument).value),
    "LOAD_CLOSURE": lambda frame, op: frame.stack.append(frame.cell(op.argument)),
    "STORE_DEREF": _store_cell,
    # Operators and jumps.
    "UNARY": lambda frame, op: frame.emit("unary", op.symbol, frame.stack.pop()),
    **dict.fromkeys(
        ("BINARY", "COMPARE"),
        lambda frame, op: frame.emit("binary", op.symbol, *frame.pop(2)),
    ),
    **dict.fromkeys(("IS", "CONTAINS"), _is_or_in),
    **dict.fromkeys(("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD"), _jump),
    **dict.fromkeys(
        ("POP_JUMP_IF_FALSE", "JUMP_IF_FALSE_OR_POP"),
        lambda frame, op: frame.jump_if(op, wanted=False),
    ),
    **dict.fromkeys(
        ("POP_JUMP_IF_TRUE", "JUMP_IF_TRUE_OR_POP"),
        lambda frame, op: frame.jump_if(op, wanted=True),
    ),
    "GET_ITER": lambda frame, op: _check_iterable(frame),
    "FOR_ITER": _next,
    # Tuples, dicts and slices.
    "SUBSCRIPT": lambda frame, op: frame.emit("subscript", *frame.pop(2)),
    "BINARY_SLICE": _slice,
    "SLICE": _slice_of_2,
    "BUILD_SLICE": lambda frame, op: frame.push(slice(*frame.pop(op.argument))),
    "BUILD_TUPLE": lambda frame, op: frame.push(frame.pop(op.argument)),
    "LIST_APPEND": lambda frame, op: frame.extend(op.argument, frame.pop(1)),
    "LIST_EXTEND": _list_extend,
    "BUILD_MAP": _map,
    "BUILD_CONST_KEY_MAP": _map_of_keys,
    "STORE_MAP": _store_map,
    "UNPACK_SEQUENCE": _unpack,
    # Functions and modules.
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), _attribute),
    "KW_NAMES": _keywords,
    "CALL_FUNCTION": _call_function,
    "CALL_FUNCTION_KW": _call_keywords,
    "CALL": _call,
    **dict.fromkeys(("MAKE_FUNCTION", "MAKE_CLOSURE"), _function),
    "IMPORT_NAME": _import,
    "IMPORT_FROM": _import_from,
}
