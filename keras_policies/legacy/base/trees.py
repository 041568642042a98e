"""Trees: nested lists, tuples and dicts, flattened by `optree` as in Keras.

A named tuple, such as a `TensorSpec`, is a leaf. Dicts are flattened in the order of
their sorted keys, as in TensorFlow.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import optree

Tree: TypeAlias = Any
is_namedtuple: Callable[[Any], bool] = optree.is_namedtuple
# `mapped(function, tree)` is a tree with `function` applied to each leaf but None.
mapped: Callable[..., Tree] = functools.partial(optree.tree_map, is_leaf=is_namedtuple)


def leaves(tree: Tree, is_leaf: Callable[[Any], bool] = is_namedtuple) -> list[Any]:
    """Return the leaves of a tree, including None."""
    return optree.tree_leaves(tree, is_leaf, none_is_leaf=True)
