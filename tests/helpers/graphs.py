"""Changes the graph of a SavedModel."""

from keras_policies.legacy.readers.checkpoint import protos


def change_graph(path, change):
    """Apply `change(meta_graph, graph)` to a SavedModel, in place."""
    file = path / "saved_model.pb"
    parsed = protos.parse("SavedModel", file.read_bytes())
    meta_graph = parsed.meta_graphs[0]
    graph = protos.parse("Graph", meta_graph.graph_def)
    change(meta_graph, graph)
    meta_graph.graph_def = graph.SerializeToString()
    file.write_bytes(parsed.SerializeToString())


def tensors(graph):
    """Return `{name: Tensor}` of the constants of a graph."""
    return {
        node.name: attr.value.tensor
        for node in graph.node
        if node.op == "Const"
        for attr in node.attr
        if attr.key == "value"
    }
