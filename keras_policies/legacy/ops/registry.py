"""Registers TensorFlow functions: the decorator `op`, and rows of names."""

import ast
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from keras_policies._common import syntax
from keras_policies._common.lazy_keras import keras, keras_internals
from keras_policies.legacy.base import walks
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import complex_pairs, converters
from keras_policies.legacy.values import examples, formulas
from keras_policies.legacy.values.evaluator import evaluate, is_tensor

Function = TypeVar("Function", bound=Callable[..., Any])
# A row of `functions`: names (see `_names_and_forms`), then a formula or a function of
# keras.ops, `"math.xdivy Xdivy: x / y"`, `"nn.relu Relu: relu"`; or a pair of a Python
# function and its names.
Row: TypeAlias = str | tuple[Callable[..., Any], str]
# A name in TensorFlow, or ops of graphs and their signature: `A|B(inputs; attributes)`.
NAME = re.compile(r"([\w.|]+)(?:\(([^()]*)\))?")
# Types of parameters in rows; the others are in `converters`.
KINDS: dict[str, Any] = {
    **{"": converters.Value, "bool": bool, "float": float, "int": int},
    **{"ints": tuple[int, ...], "object": object},
}
EMPTY = inspect.Parameter.empty
# Functions whose results are discrete choices, without their namespaces.
CHOICES = {
    *("argmax", "argmin", "argsort", "ceil", "equal", "floor", "greater"),
    *("greater_equal", "less", "less_equal", "not_equal", "rint", "round", "sign"),
    *("sort", "top_k"),
}

# Parameters that never change the result.
WITHOUT_EFFECT = {
    *("a_is_sparse", "b_is_sparse", "name", "partition_strategy", "stable"),
    *("use_cudnn_on_gpu", "validate_indices", "validate_shape"),
}


@dataclasses.dataclass
class Op:
    """The counterpart of a TensorFlow function."""

    name: str  # in TensorFlow, without "tf."; "" if it only exists in graphs
    function: Callable[..., Any]  # each parameter has a type that `converters` knows
    renamed: Mapping[str, str]  # other names of parameters, `{"keep_dims": "keepdims"}`

    def __post_init__(self) -> None:
        self.signature = inspect.signature(self.function)
        self.checks = converters.checks(self.function)

    def call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """Call the function as TensorFlow does; a ValueError names a wrong argument."""
        try:
            bound = self.signature.bind(*args, **self._renamed(kwargs))
        except TypeError as error:
            raise ValueError(str(error)) from error
        rule = complex_pairs.RULES.get(self.name)
        if rule is not None and complex_pairs.among(bound.arguments.values()):
            return rule(lambda **kwargs: self.call((), kwargs), bound.arguments)
        checked = {}
        for name, value in bound.arguments.items():
            if value is None:  # tf.keras records None for omitted arguments
                continue
            try:
                checked[name] = self.checks[name](value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        is_choice = self.name.rpartition(".")[2] in CHOICES
        if is_choice and any(map(_is_random, checked.values())):
            reason = "a choice by random numbers, which Keras draws in training only"
            raise ValueError(reason)
        return self.function(**checked)

    def _renamed(self, kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return keyword arguments under our names, without those that do nothing."""
        return {
            key if key in self.checks else self.renamed.get(key, key): value
            for key, value in kwargs.items()
            if key in self.checks or not (value is None or key in WITHOUT_EFFECT)
        }


@dataclasses.dataclass(frozen=True)
class OpSignature:
    """How a node of a TensorFlow graph calls a function: tensorflow/core/ops/*.cc."""

    # Parameters of the inputs, separated by blanks. If the first one is `"*values"`, it
    # takes all inputs that the others leave.
    inputs: str
    # Parameters of the attributes: `"axis"`, or `"dtype=T"` for an attribute `T`.
    attributes: str = ""
    outputs: str = ""  # names of the outputs if there are several

    def position(self, output: str, index: int) -> int:
        """Map an output of the op to a position in the tuple of the function."""
        names = self.outputs.split()
        return index + (names.index(output) if output in names else 0)

    def parameters(self) -> dict[str, str]:
        """Return `{parameter: attribute}`."""
        pairs = (text.partition("=") for text in self.attributes.split())
        return {name: attribute or name for name, _, attribute in pairs}

    def arguments(self, values: Sequence[object]) -> dict[str, object]:
        """Return the inputs by parameter; raise ValueError if their number is wrong."""
        names, by_parameter, values = self.inputs.split(), {}, list(values)
        if names[0].startswith("*"):
            end = len(values) - len(names) + 1
            by_parameter[names.pop(0)[1:]] = values[:end]
            values = values[end:]
        if len(names) != len(values):
            raise ValueError(f"expected the inputs {names}, found {len(values)} values")
        return {**by_parameter, **dict(zip(names, values, strict=True))}


# Name in TensorFlow, without "tf." -> its function.
FUNCTIONS: dict[str, Op] = {}
# Name of an op in graphs -> its function, and how nodes call it.
NODES: dict[str, tuple[Op, OpSignature]] = {}


def _names_and_forms(
    names: str, signature: inspect.Signature
) -> tuple[list[str], dict[str, OpSignature]]:
    """Return the names of a function in TensorFlow, and its ops in graphs.

    Names of ops begin with a capital. The fields of `OpSignature` follow in
    parentheses; by default, parameters without defaults are inputs, others attributes.

    Example:
        >>> names = "nn.pad Pad(tensor paddings) Max|Min(x axis; keepdims=keep_dims)"
        >>> found, ops = _names_and_forms(names, inspect.signature(len))
        >>> found, [*ops], ops["Min"].parameters()
        (['nn.pad'], ['Pad', 'Max', 'Min'], {'keepdims': 'keep_dims'})
    """
    defaults = {each.name: each.default for each in signature.parameters.values()}
    inputs = (name for name, default in defaults.items() if default is EMPTY)
    settings = (name for name, default in defaults.items() if default is not EMPTY)
    plain = f"{' '.join(inputs)}; {' '.join(settings)}"
    listed, forms = list[str](), dict[str, OpSignature]()
    for words, form in NAME.findall(names):
        if words.removeprefix("_")[0].isupper():
            fields = map(str.strip, (form or plain).split(";"))
            forms |= dict.fromkeys(words.split("|"), OpSignature(*fields))
        else:
            listed.append(words)
    return listed, forms


def op(
    names: str, *, v1: bool = False, renamed: Mapping[str, str] | None = None
) -> Callable[[Function], Function]:
    """Return a decorator that registers a function.

    Args:
        names: its names in TensorFlow, without `"tf."`, and its ops in graphs; see
            `_names_and_forms`. The module is that of the first name.
        v1: whether `tf.compat.v1` also has the names, with the same parameters.
        renamed: other names of its parameters, `{"dim": "axis"}`.
    """

    def decorate(function: Function) -> Function:
        listed, forms = _names_and_forms(names, inspect.signature(function))
        listed += [f"compat.v1.{name}" for name in listed if v1]
        twice = FUNCTIONS.keys() & listed or NODES.keys() & forms
        if twice:
            raise ValueError(f"{sorted(twice)} are already registered")
        entry = Op(next(iter(listed), ""), function, renamed or {})
        FUNCTIONS.update(dict.fromkeys(listed, entry))
        NODES.update({name: (entry, form) for name, form in forms.items()})
        return function

    return decorate


def functions(
    parameters: str,
    *rows: Row,
    v1: bool = False,
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Register functions with the same parameters, one for each `Row`.

    `parameters` are names of values, such as `"x y"`; others have a type, and settings,
    which are passed by keyword, a default: `"axis:int=-1"`. See also `op`.
    """
    signature = inspect.Signature([*map(_parameter, parameters.split())])
    for row in rows:
        if isinstance(row, str):
            names, _, formula = row.rpartition(": ")
            function = _function(_of_formula(formula, signature), signature)
        else:
            function, names = _function(row[0], signature), row[1]
        op(names, v1=v1, renamed=renamed)(function)


def _of_formula(formula: str, signature: inspect.Signature) -> Callable[..., Any]:
    """Return a function of keras.ops, or a formula as a function of its parameters."""
    if formula.replace(".", "").isidentifier() and formula not in signature.parameters:
        return functools.partial(evaluate, formula)

    def function(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip(signature.parameters, args, strict=False))
        return formulas.compiled(formula)({**named, **kwargs})

    return function


def _parameter(text: str) -> inspect.Parameter:
    """Return the parameter `x` for `"x"`, and `axis: int = -1` for `"axis:int=-1"`."""
    declared, _, default = text.partition("=")
    name, _, kind = declared.partition(":")
    tree = syntax.expression(default) if default else None
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=ast.literal_eval(tree) if tree else EMPTY,
        annotation=KINDS[kind] if kind in KINDS else getattr(converters, kind),
    )


def _function(
    called: Callable[..., Any], signature: inspect.Signature
) -> Callable[..., Any]:
    """Return a function with a signature that passes settings by keyword."""
    parameters = signature.parameters.values()
    settings = [each.name for each in parameters if each.default is not EMPTY]

    def function(**arguments: Any) -> Any:
        bound = signature.bind(**arguments)
        bound.apply_defaults()
        values = bound.arguments
        keywords = {name: values.pop(name) for name in settings}
        return called(*values.values(), **keywords)

    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def _is_random(x: Any) -> bool:
    """Return whether an operand is computed from random numbers and sizes alone."""

    def inputs(tensor: Any) -> Sequence[Any]:
        is_full = type(keras_internals.maker_of(tensor)).__name__ in examples.FILLS
        return () if is_full else keras_internals.inputs_of(tensor)  # only the shape

    is_random = False
    for tensor in walks.reachable([x] if is_tensor(x) else [], inputs):
        budget.work(budget.ITEM)
        maker = keras_internals.maker_of(tensor)
        if isinstance(maker, keras.layers.InputLayer):
            return False
        is_random |= isinstance(maker, keras.layers.GaussianNoise)
    return is_random
