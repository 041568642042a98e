"""The traced functions of a SavedModel, as frozen values.

tf.keras saved each layer's config together with the functions that it had traced. If
the class of a layer is missing, its function shows what the layer computed. Sources:
tensorflow/core/framework/function.proto,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.trees import Tree
from keras_policies.legacy.base.weights import Array, LegacyWeight

# Ops that call functions: one, one of two, one of several, or one repeatedly.
CALLS = "PartitionedCall", "StatefulPartitionedCall"
CONDITIONS = "If", "StatelessIf"
CASES = "Case", "StatelessCase"
LOOPS = "While", "StatelessWhile"
# Ops that return their (first) input unchanged.
PASSING = {
    *("CheckNumerics", "EnsureShape", "Identity", "IdentityN", "PreventGradient"),
    *("PlaceholderWithDefault", "ReadVariableOp", "Snapshot"),
}

SERVING = "serving_default"  # the signature that tf.keras writes
FLOATS = "bfloat16", "float16", "float32", "float64"  # dtypes of trainable weights
NO_CLASS = "Signature"  # class name of the model in a file without Keras metadata

# A tree of `TensorSpec`s, `Composite`s and plain values.
Nest: TypeAlias = Tree


class TensorSpec(NamedTuple):
    """The shape and dtype of a function's argument or result."""

    shape: tuple[int | None, ...] | None  # None: any rank
    dtype: str
    name: str = ""


def specs(nest: Nest) -> list[TensorSpec]:
    """Return the specs in a nest; dicts are flattened by sorted keys."""
    return [leaf for leaf in trees.leaves(nest) if isinstance(leaf, TensorSpec)]


class Composite(NamedTuple):
    """An argument or a result that is not a dense tensor, such as a ragged one."""

    kind: str  # "RaggedTensorSpec", as TensorFlow calls it


class Output(NamedTuple):
    """A tensor inside a function: an output of a node, or an argument."""

    node: str  # or the name of the argument
    output: str = ""  # the name of the op's output, "" for an argument
    position: int = 0  # within that output, which may be a list


@dataclasses.dataclass(frozen=True)
class Node:
    """A call of a TensorFlow op."""

    name: str  # with its scopes, "net/dense/MatMul"
    op: str
    inputs: tuple[Output, ...]  # without control inputs
    # Plain values: names of dtypes and functions, tuples for shapes, arrays for
    # tensors. Attributes that start with "_" are left out.
    attributes: Mapping[str, Any]
    # Set by `tf.custom_gradient`: a key of `TracedFunctions.gradients`, if recorded.
    gradient: str = ""
    # As TensorFlow inferred it, for nodes with one output; None is an unknown length.
    shape: tuple[int | None, ...] | None = None


def branches(node: Node) -> Sequence[str]:
    """Return the functions that a condition chooses from; for If, True's is first."""
    if node.op in CONDITIONS:
        return [str(node.attributes.get(f"{end}_branch")) for end in ("then", "else")]
    every = [*map(str, node.attributes.get("branches") or ())]
    if not every:
        raise LegacyModelError(f"corrupt: {node.name!r} ({node.op}) has no branches.")
    return every


def branch(node: Node, value: Array) -> str:
    """Return the function that a condition calls for this value."""
    every = branches(node)
    if node.op in CONDITIONS:
        return every[not np.all(value)]
    number = int(value)
    return every[number if 0 <= number < len(every) else -1]


@dataclasses.dataclass(frozen=True)
class VariableRef:
    """A variable, or what is read from it, as a value in a function."""

    variable: int  # its number in `TracedFunctions`


@dataclasses.dataclass(frozen=True)
class Resource:
    """A lookup table, or another object that is not a tensor, as such a value."""

    number: int


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of the graph's library."""

    name: str
    arguments: tuple[str, ...]  # the captured ones are last
    nodes: Mapping[str, Node]  # by name, in the order of the file
    outputs: tuple[Output, ...]


class Table(NamedTuple):
    """The content of a lookup table; texts are bytes in object arrays."""

    keys: Array  # one axis
    values: Array  # a number, a text or an array for each key

    def find(self, keys: Array, other: Array) -> Array:
        """Return the values of some keys; keys not in the table get `other`."""
        numbers = {key: number for number, key in enumerate(self.keys.tolist())}
        values = np.concatenate(
            [self.values, np.asarray(other, self.values.dtype)[None]]
        )
        positions = [numbers.get(key, -1) for key in keys.reshape(-1).tolist()]
        result: Array = values[positions].reshape(*keys.shape, *values.shape[1:])
        return result


@dataclasses.dataclass(frozen=True)
class ConcreteFunction:
    """A function of an object, traced for arguments of one structure.

    `inputs` is `(args, kwargs)`; its `TensorSpec`s, flattened in the order of sorted
    keys, are the first arguments of the function. `captures` has the object numbers of
    the remaining arguments. The function returns `losses` after the outputs.
    """

    function: str
    inputs: Nest
    outputs: Nest
    captures: tuple[int, ...]
    losses: Nest = ()


class Gradient(NamedTuple):
    """The recorded gradient of a node.

    The function takes the gradients of the node's outputs, then the captures: tensors
    in the function of the node. It returns the gradients of inputs.
    """

    function: str
    captures: tuple[Output, ...]


@dataclasses.dataclass(frozen=True)
class TracedLayer:
    """A layer or a model, as an object of the SavedModel."""

    class_name: str
    # A layer saved without its config has only "name", "trainable" and "dtype" (the
    # policy as written), as far as they are recorded.
    config: Config
    has_config: bool
    name: str
    # Attribute, such as "blocks/0" -> number of another layer or variable.
    children: Mapping[str, int]
    variables: tuple[int, ...]  # with inner layers', in the order of `weights`
    trainable: tuple[int, ...]  # the subset that the layer trains
    traces: tuple[ConcreteFunction, ...]  # of `call`
    traces_with_losses: tuple[
        ConcreteFunction, ...
    ] = ()  # the same, with the losses it adds
    regularizers: tuple[ConcreteFunction, ...] = ()  # each returns one weight's loss
    activity_regularizer: ConcreteFunction | None = None  # returns an output's loss
    served: ConcreteFunction | None = None  # of a model: traced by calling it


@dataclasses.dataclass(frozen=True)
class TracedFunctions:
    """The objects and functions of a SavedModel; object 0 is the model.

    A file without Keras metadata has no other layers. Its model has the class name
    `NO_CLASS`, and the trace of the serving signature; without that name, the trace of
    the first signature, of `__call__` or of another function. Its variables are those
    that the trace captures.
    """

    layers: Mapping[int, TracedLayer]
    variables: Mapping[int, LegacyWeight]
    constants: Mapping[int, Callable[[], Array]]
    functions: Mapping[str, Function]  # parsed when they are looked up
    signatures: Mapping[str, ConcreteFunction]
    # Lookup tables; None if the file does not have the content.
    tables: Mapping[int, Table | None] = dataclasses.field(default_factory=dict)
    # By `Node.gradient`; files of TensorFlow before 2.6 have none.
    gradients: Mapping[str, Gradient] = dataclasses.field(default_factory=dict)

    def by_name(self, number: int) -> dict[str, int]:
        """Return the layers of a Sequential or Functional model, by name."""
        children = self.layers[number].children.values()
        return {self.layers[n].name: n for n in children if n in self.layers}

    def with_values(self, arrays: Mapping[int, Array]) -> "TracedFunctions":
        """Return the same functions with only these variables, with other values."""
        variables = {
            number: dataclasses.replace(self.variables[number], read=array.copy)
            for number, array in arrays.items()
        }
        return dataclasses.replace(self, variables=variables)

    @property
    def regularizers(self) -> list[ConcreteFunction]:
        """The regularizers of all layers, each once; the root lists only its own."""
        traces = (each for layer in self.layers.values() for each in layer.regularizers)
        return [*{each.function: each for each in traces}.values()]
