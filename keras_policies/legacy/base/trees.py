"""Trees: lists, tuples and dicts of leaves, which `optree` walks, as in Keras.

A named tuple is a leaf, such as a `TensorSpec`. Dicts are walked in the
order of their sorted keys, as TensorFlow flattens them.
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
    """Return the leaves of a tree, None among them."""
    return optree.tree_leaves(tree, is_leaf, none_is_leaf=True)
