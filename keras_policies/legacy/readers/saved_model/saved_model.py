"""Reads a SavedModel folder that tf.keras 2.0 to 2.15 wrote.

Source: keras/saving/legacy/saved_model/load.py.
"""

import contextlib
import pathlib
from collections.abc import Iterator

from keras_policies.legacy.base.model import Inputs, LegacyModel, LegacyWeight
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.readers import vocabularies
from keras_policies.legacy.readers.checkpoint.checkpoint import DTYPES, STRING
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import (
    objects,
    optimizer,
    recorded,
    saved_states,
    tokens,
)

# The releases that wrote the dtypes of variables, but no policies.
WITHOUT_POLICIES = "1.", "2.0."


def _input(info: Message) -> tuple[tuple[int | None, ...], str]:
    """Return `(shape, dtype)` of a message `TensorInfo`."""
    shape = (None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
    is_string = info.dtype == STRING
    dtype = "string" if is_string else DTYPES.get(info.dtype, DTYPES[1]).name
    return tuple(shape), dtype


def _inputs(meta_graph: Message) -> Inputs:
    """Return `{name: (shape, dtype)}` of the serving signature."""
    for named in meta_graph.signature_def:
        if named.key == objects.SERVING:
            inputs = sorted(named.value.inputs, key=lambda item: item.key)
            return {item.key: _input(item.value) for item in inputs}
    return {}


@contextlib.contextmanager
def read(path: pathlib.Path) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in the SavedModel folder at `path`."""
    opened = objects.open_folder(path)
    graph, root = opened.graph, opened.graph.metadata[0]
    layers = graph.layers(0) if graph.is_graph(0) else {"": 0}
    by_layer = {name: graph.weights(node) for name, node in layers.items()}
    if opened.is_signature:
        by_layer = {"": recorded.weights_of_signature(opened)}
    every: dict[int, LegacyWeight] = {}  # of layers that share one, the first has it
    for own in by_layer.values():
        every |= {node: item for node, item in own.items() if node not in every}
    config = root.get("config")
    if isinstance(config, dict) and config.get(recorded.WITHOUT_CONFIG):
        config = None
    config = {"class_name": root.get("class_name"), "config": config}
    found, weights = vocabularies.take(
        config,
        {name: tuple(found.values()) for name, found in by_layer.items()},
        tokens.by_layer(opened),
    )
    walk = graph.walk(0, graph.inner_layers)
    dtypes = ((at, graph.metadata.get(node, {}).get("dtype")) for at, node in walk)
    inner = {at: dtype for at, dtype in dtypes if policy_name(dtype) is not None}
    version = opened.meta_graph.meta_info_def.tensorflow_version
    yield LegacyModel(
        path=str(path),
        format="SavedModel",
        written_by=f"TensorFlow {version}",
        config=config,
        policy=root.get("dtype"),
        records_policies=not version.startswith(WITHOUT_POLICIES),
        weights=weights,
        inputs=_inputs(opened.meta_graph),
        training_config=root.get("training_config"),
        optimizer=optimizer.read(opened, every),
        vocabularies=found,
        inner_policies=inner,
        states=saved_states.by_layer(graph),
        recorded=recorded.read(opened, every),
    )
