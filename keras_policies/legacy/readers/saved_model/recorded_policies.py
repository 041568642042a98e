"""The policies that a SavedModel records of the layers below others."""

import collections

from keras_policies.legacy.base.policies import policy_name

MAX_PATH = 2000  # characters


def of_layers(graph, edges):
    """Return `{path: dtype as written}` of the layers in a SavedModel, nearest first.

    Args:
        graph: `ObjectGraph`.
        edges: callable, gives `{name: node}` below a node.
    """
    found, seen, queue = {}, {0}, collections.deque([(0, "")])
    while queue:
        node, prefix = queue.popleft()
        for edge, child in edges(graph, node).items():
            path = f"{prefix}{edge}"
            if child in seen or len(path) > MAX_PATH:
                continue
            seen.add(child)
            dtype = graph.metadata.get(child, {}).get("dtype")
            if policy_name(dtype) is not None:
                found[path] = dtype
            queue.append((child, f"{path}/"))
    return found
