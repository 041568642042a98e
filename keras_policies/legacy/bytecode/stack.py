"""Instructions on the stack, on variables, on one or two values, and jumps."""

from keras_policies.legacy.bytecode import names
from keras_policies.legacy.bytecode.instructions import Instruction
from keras_policies.legacy.bytecode.machine import NULL, Frame, handles
from keras_policies.legacy.bytecode.values import Cell


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
