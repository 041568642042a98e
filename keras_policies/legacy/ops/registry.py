"""How TensorFlow functions enter the table: the decorator `op`, and rows of names."""

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from keras_policies._common.lazy_keras import keras, keras_internals
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import complex_pairs, converters
from keras_policies.legacy.values import examples
from keras_policies.legacy.values.evaluator import evaluate, is_tensor

Function = TypeVar("Function", bound=Callable[..., Any])
# Name in keras.ops, or a formula; names in TensorFlow; ops in a graph. Blanks separate
# several names. A function is looked up when it is called: the oldest Keras lacks some.
Row: TypeAlias = tuple[str | Callable[..., Any], str, str]
# The types of parameters in rows; see `converters`.
CONVERTED = "Axes", "DType", "Layout", "Length", "Lengths", "Padding", "Pair", "Values"
KINDS: dict[str, Any] = {
    "": converters.Value,
    **{name: getattr(converters, name) for name in CONVERTED},
    **{"bool": bool, "float": float, "int": int, "object": object},
    "ints": tuple[int, ...],
}
EMPTY = inspect.Parameter.empty
# Functions whose result is a choice by numbers, by their last names in TensorFlow.
CHOICES = {
    *("argmax", "argmin", "argsort", "ceil", "equal", "floor", "greater"),
    *("greater_equal", "less", "less_equal", "not_equal", "rint", "round", "sign"),
    *("sort", "top_k"),
}

# Parameters that say how TensorFlow computes and never change the result.
WITHOUT_EFFECT = {
    *("a_is_sparse", "b_is_sparse", "name", "partition_strategy", "stable"),
    *("use_cudnn_on_gpu", "validate_indices", "validate_shape"),
}


@dataclasses.dataclass
class Op:
    """A TensorFlow function, as `keras.ops`."""

    name: str  # in TensorFlow, without "tf."; "" if only graphs have it
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
            return rule(self._of_real, bound.arguments)
        checked = {}
        for name, value in bound.arguments.items():
            if value is None:  # tf.keras records None for what was not given
                continue
            try:
                checked[name] = self.checks[name](value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        is_choice = self.name.rpartition(".")[2] in CHOICES
        if is_choice and any(map(_is_drawn, checked.values())):
            reason = "a choice by random numbers, which Keras draws in training only"
            raise ValueError(reason)
        return self.function(**checked)

    def _of_real(self, **kwargs: object) -> Any:
        return self.call((), kwargs)

    def _renamed(self, kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return keyword arguments under our names, without those of no effect."""
        return {
            key if key in self.checks else self.renamed.get(key, key): value
            for key, value in kwargs.items()
            if key in self.checks or not (value is None or key in WITHOUT_EFFECT)
        }


@dataclasses.dataclass(frozen=True)
class OpSignature:
    """How a node of a TensorFlow graph calls a function: tensorflow/core/ops/*.cc."""

    # The parameters that the node's inputs are, in their order, separated by blanks. A
    # first `"*values"` takes all inputs but those named after it.
    inputs: str
    # The parameters that the node's attributes set, separated by blanks: `"axis"`, or
    # `"dtype=T"` where the attribute has another name.
    attributes: str = ""
    # The names of its outputs if there are several, separated by blanks. A single one
    # needs no name, and may be a list.
    outputs: str = ""

    def position(self, output: str, index: int) -> int:
        """Map an output of the op to a position in the tuple of the function."""
        names = self.outputs.split()
        return index + (names.index(output) if output in names else 0)

    def parameters(self) -> dict[str, str]:
        """Return `{parameter: name of the attribute that sets it}`."""
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
# Name of an op in a graph -> its function, and how the node calls it.
NODES: dict[str, tuple[Op, OpSignature]] = {}


def _enter(
    function: Callable[..., Any],
    names: Sequence[str],
    v1: bool,
    renamed: Mapping[str, str] | None,
    raw: Mapping[str, OpSignature],
) -> None:
    """Enter a function into the table; see `op`."""
    names = [*names, *(f"compat.v1.{name}" for name in names if v1)]
    twice = FUNCTIONS.keys() & names or NODES.keys() & raw
    if twice:
        raise ValueError(f"{sorted(twice)} are in the table already")
    entry = Op(next(iter(names), ""), function, renamed or {})
    FUNCTIONS.update(dict.fromkeys(names, entry))
    NODES.update({name: (entry, form) for name, form in raw.items()})


def _plain_form(signature: inspect.Signature) -> OpSignature:
    """Return how a node calls a function: values are inputs, settings attributes."""
    defaults = {each.name: each.default for each in signature.parameters.values()}
    inputs = (name for name, default in defaults.items() if default is EMPTY)
    settings = (name for name, default in defaults.items() if default is not EMPTY)
    return OpSignature(" ".join(inputs), " ".join(settings))


def op(
    *names: str,
    nodes: str = "",
    v1: bool = False,
    renamed: Mapping[str, str] | None = None,
    **raw: OpSignature,
) -> Callable[[Function], Function]:
    """Return a decorator that enters a function into the table.

    Args:
        names: the names of the function in TensorFlow, without `"tf."`. The first gives
            the module that it belongs to.
        v1: whether these names are in `tf.compat.v1`, too, with the same parameters.
        renamed: other names of its parameters, `{"dim": "axis"}`.
        nodes: the ops of graphs that call it with the parameters without defaults as
            inputs, and with the others as attributes; separated by blanks.
        raw: those that call it in another way, and how.
    """

    def decorate(function: Function) -> Function:
        form = _plain_form(inspect.signature(function))
        forms = {**dict.fromkeys(nodes.split(), form), **raw}
        _enter(function, names, v1, renamed, forms)
        return function

    return decorate


def functions(
    parameters: str,
    *entries: Row,
    v1: bool = False,
    raw: OpSignature | None = None,
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Enter functions that take the same parameters; see `Row`.

    Args:
        parameters: names of values, such as `"x y"`. Others come with their types, and
            settings, which are passed by keyword, with defaults: `"axis:int=-1"`.
        entries: the functions.
        v1: whether their names are in `tf.compat.v1`, too.
        raw: how nodes call them, if not with values as inputs, settings as attributes.
        renamed: other names of the parameters.
    """
    signature = inspect.Signature([*map(_parameter, parameters.split())])
    plain = _plain_form(signature)
    for called, names, nodes in entries:
        function = _function(called, signature, plain.attributes.split())
        forms = dict.fromkeys(nodes.split(), raw or plain)
        _enter(function, names.split(), v1, renamed, forms)


def _parameter(text: str) -> inspect.Parameter:
    """Return the parameter `x` for `"x"`, and `axis: int = -1` for `"axis:int=-1"`."""
    declared, _, default = text.partition("=")
    name, _, kind = declared.partition(":")
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=ast.literal_eval(default) if default else EMPTY,
        annotation=KINDS[kind],
    )


def _function(
    called: str | Callable[..., Any],
    signature: inspect.Signature,
    settings: Sequence[str],
) -> Callable[..., Any]:
    """Return a function that has the signature."""
    if isinstance(called, str):
        called = functools.partial(evaluate, called)

    def function(**arguments: Any) -> Any:
        bound = signature.bind(**arguments)
        bound.apply_defaults()
        values = bound.arguments
        keywords = {name: values.pop(name) for name in settings}
        return called(*values.values(), **keywords)

    function.__signature__ = signature  # type: ignore[attr-defined]
    parameters = signature.parameters.values()
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def _is_drawn(x: Any) -> bool:
    """Return whether an operand is computed of random numbers and sizes alone."""
    is_drawn, seen, waiting = False, set(), [x] if is_tensor(x) else []
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        maker = keras_internals.maker_of(tensor)
        if isinstance(maker, keras.layers.InputLayer):
            return False
        is_drawn |= isinstance(
            maker, keras.layers.GaussianNoise
        )  # of zeros, or of data
        if type(maker).__name__ not in examples.FILLS:  # they take a shape alone
            waiting += keras_internals.inputs_of(tensor)
    budget.work(budget.ITEM * len(seen))
    return is_drawn
