"""The stack machine of Python; `stack`, `containers` and `functions` handle its steps.

Source: CPython, Python/ceval.c and Python/bytecodes.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keras_policies.legacy.bytecode import values
from keras_policies.legacy.bytecode.code import VERSIONS
from keras_policies.legacy.bytecode.instructions import Instruction, decoded
from keras_policies.legacy.bytecode.values import Cell, Function

if TYPE_CHECKING:
    from keras_policies.legacy.bytecode.follow import Follower

NULL = object()  # what Python 3.11 puts below a function that is called


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
        while True:
            self.follower.step()
            instruction, self.position = decoded(self.code, self.position)
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
