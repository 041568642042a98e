"""Reads a SavedModel of TensorFlow 1: a graph and signatures, without objects.

`simple_save`, `SavedModelBuilder` and `export_saved_model` of estimators wrote the
graph of a session. The part between the inputs and outputs of a signature becomes its
function. Source: tensorflow/python/saved_model/{builder_impl, loader_impl}.py.
"""

import collections
import functools
import pathlib
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError, attempt, located
from keras_policies.legacy.base.model import Inputs, LegacyModel, LegacyOptimizerState
from keras_policies.legacy.base.traced_functions import (
    NO_CLASS,
    SERVING,
    ConcreteFunction,
    Function,
    Output,
    TensorSpec,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import functions
from keras_policies.legacy.readers.saved_model.library import Lazy, Library
from keras_policies.legacy.readers.saved_model.objects import MODEL_FILE, SIGNATURE
from keras_policies.legacy.readers.saved_model.tensorflow_1 import subgraphs
from keras_policies.legacy.readers.saved_model.tensorflow_1.session_state import State

PREFIX = "signature:"  # of the names of the functions of signatures
PARSERS, FEATURES = ("ParseExample", "ParseExampleV2"), "/features"
Tensors: TypeAlias = dict[str, tuple[Output, TensorSpec]]


def read(folder: pathlib.Path, meta_graph: Message, inputs: Inputs) -> LegacyModel:
    """Return the model of a graph without objects; `inputs` are those of its signature.

    Its signature is `serving_default`, or else the first one.
    """
    with located(folder):
        traced = _traced(folder, meta_graph)
    return LegacyModel(
        path=str(folder),
        format="SavedModel",
        written_by=f"TensorFlow {meta_graph.meta_info_def.tensorflow_version}",
        config={"class_name": NO_CLASS, "config": None},
        records_policies=False,
        weights={"": tuple(traced.variables[n] for n in traced.layers[0].variables)},
        training_config=None,
        optimizer=LegacyOptimizerState(),
        inputs=inputs,
        traced=traced,
    )


def _traced(folder: pathlib.Path, meta_graph: Message) -> TracedFunctions:
    library = Library(folder / MODEL_FILE, meta_graph)
    state = State(folder, meta_graph, library)
    signatures = _Signatures(folder, meta_graph, state)
    if not signatures.written:
        raise LegacyModelError(
            "a SavedModel without objects, as TensorFlow 1 wrote it, and without "
            "signatures: nothing says what its graph takes and returns.",
            "Load it in TensorFlow 1, and save it with tf.saved_model.simple_save, "
            "which writes a signature.",
            code="KP102",
        )
    name = SERVING if SERVING in signatures.written else min(signatures.written)
    trace = signatures.traces[name]
    layer = TracedLayer(
        class_name=NO_CLASS,
        config={},
        has_config=False,
        name=SIGNATURE["name"],
        children={},
        variables=tuple(n for n in trace.captures if n in state.variables),
        trainable=tuple(state.trainable()),
        traces=(trace,),
    )
    # Signatures, the conditions and loops in them, and the library have functions.
    mappings: Any = signatures.functions, state.graph.inner_functions, library.functions
    return TracedFunctions(
        layers={0: layer},
        variables=state.variables,
        constants={},
        functions=collections.ChainMap[str, Function](*mappings),
        signatures=signatures.traces,
        tables=state.tables,
    )


class _Signatures:
    """The signatures of a graph: as messages (`written`), traces and functions."""

    def __init__(self, folder: pathlib.Path, meta_graph: Message, state: State) -> None:
        self._state = state
        self.written = {item.key: item.value for item in meta_graph.signature_def}
        self.traces = Lazy(folder / MODEL_FILE, self._names, self._trace)
        self.functions = Lazy(
            folder,
            lambda: {f"{PREFIX}{name}": name for name in self.traces},
            lambda name: self.made(name)[0],
        )
        self.made = functools.cache(self._function)

    def _names(self) -> dict[str, str]:
        """Return the names of all signatures.

        If the graph parses serialized examples, each has another for parsed tensors.
        """
        has_parser = any(True for _ in self._state.graph.nodes(*PARSERS))
        more = [f"{name}{FEATURES}" for name in self.written if has_parser]
        return {name: name for name in (*self.written, *more)}

    def _trace(self, name: str) -> ConcreteFunction:
        """Return the trace of a signature; without captures if it has no function."""
        captured: list[Output] = []
        with attempt(LegacyModelError):  # looking the function up raises it again
            _, captured = self.made(name)
        inputs, outputs = (
            {key: spec for key, (_, spec) in tensors.items()}
            for tensors in self._tensors(name)
        )
        numbers = tuple(self._state.numbers[item.node] for item in captured)
        return ConcreteFunction(f"{PREFIX}{name}", ((), inputs), outputs, numbers)

    def _function(self, name: str) -> tuple[Function, list[Output]]:
        """Return the function of a signature, and its captures."""
        graph, numbers = self._state.graph, self._state.numbers
        feeds, fetches = ([item for item, _ in s.values()] for s in self._tensors(name))
        if any(not item.node for item in (*feeds, *fetches)):
            raise LegacyModelError(
                f"its signature {name!r} has a sparse tensor; Keras 3 passes dense "
                "tensors.",
                subgraphs.OTHER_SIGNATURE,
                code="KP307",
            )
        if not feeds:
            raise LegacyModelError(
                f"its signature {name!r} takes no tensor, so it is not a model.",
                subgraphs.OTHER_SIGNATURE,
                code="KP109",
            )
        parsed = self._parsed(fetches, feeds)
        if parsed:
            after = ", ".join(f"'{item.node}:{item.position}'" for item in parsed)
            raise LegacyModelError(
                f"its signature {name!r} takes serialized examples, and Keras 3 does "
                f"not parse them ({PARSERS[0]}). The tensors after it are {after}.",
                signatures=[name + FEATURES],  # takes these tensors
                code="KP109",
            )
        function, captured = graph.function(f"{PREFIX}{name}", feeds, fetches)
        for item in captured:
            is_variable = graph.op(item.node) in subgraphs.VARIABLE_OPS
            if is_variable and numbers[item.node] not in self._state.variables:
                raise LegacyModelError(
                    f"the variable {item.node!r} is not in its checkpoint.",
                    "Copy the whole folder of the model.",
                    code="KP106",
                )
        return function, captured

    def _tensors(self, name: str) -> tuple[Tensors, Tensors]:
        """Return the inputs and the outputs of a signature, by name."""
        written = self.written.get(name)
        if written is not None:
            return self._named(written.inputs), self._named(written.outputs)
        _, outputs = self._tensors(name.removesuffix(FEATURES))
        parsed = self._parsed([item for item, _ in outputs.values()], [])
        features = {(spec := self._feature(item)).name: (item, spec) for item in parsed}
        return dict(sorted(features.items())), outputs

    def _named(self, items: Iterable[Message]) -> Tensors:
        """Return tensors by name; the node of a sparse one is ""."""
        output, names = self._state.graph.output, {x.key: x.value.name for x in items}
        specs = functions.specs(items)
        return {name: (output(names[name]), spec) for name, spec in specs.items()}

    def _parsed(
        self, fetches: Iterable[Output], feeds: Collection[Output]
    ) -> list[Output]:
        """Return the tensors that are parsed from serialized examples."""
        graph = self._state.graph

        def is_parsed(item: Output) -> bool:
            return item not in feeds and graph.op(item.node) in PARSERS

        _, starts = graph.subgraph(fetches, lambda x: x in feeds or is_parsed(x))
        return [*filter(is_parsed, starts)]

    def _feature(self, parsed: Output) -> TensorSpec:
        """Return the spec of a feature; sparse features come before dense ones."""
        node = self._state.graph.source(parsed)
        names, attributes = node.inputs[3:4], node.attributes
        sparse = attributes["num_sparse" if node.op == PARSERS[1] else "Nsparse"]
        number = parsed.position - 3 * sparse
        if not 0 <= number < len(attributes["Tdense"]):
            raise LegacyModelError(
                f"{node.name!r} gives a sparse or ragged feature; Keras 3 passes dense "
                "tensors.",
                subgraphs.OTHER_SIGNATURE,
                code="KP307",
            )
        if node.op == PARSERS[0]:  # each name is an input
            names = node.inputs[2 + sparse : 2 + sparse + len(attributes["Tdense"])]
        keys = [self._state.graph.source(item).attributes["value"] for item in names]
        key = np.concatenate([np.ravel(key) for key in keys])[number]
        return TensorSpec(
            (None, *attributes["dense_shapes"][number]),
            attributes["Tdense"][number],
            key.decode(),
        )
