"""Names for the types in signatures that have no class of their own.

Keras and the tensors of its backends have no types for a checker; the docstrings of
public functions give the dtypes and shapes.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    import keras

Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = Any  # a Path, a file open for reading bytes, or an h5py.File
Tensor: TypeAlias = Any  # of the running backend
Tensors: TypeAlias = Sequence[Tensor]
Variables: TypeAlias = Sequence["keras.Variable"]
Arrays: TypeAlias = Any  # an array, or a structure of arrays
Config: TypeAlias = dict[str, Any]
# In quotes, since legacy files are described without Keras.
PolicyLike: TypeAlias = Union[str, "keras.DTypePolicy"]
CustomObjects: TypeAlias = dict[str, Any] | None
InputShapes: TypeAlias = Mapping[str, Sequence[int | None]] | None
