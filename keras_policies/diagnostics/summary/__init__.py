"""A model's policies, layer by layer, and the risks of its numerics.

`rows` collects the facts, layer by layer; `risks` has the warnings; `printing` turns
them into text; `overflow` runs the model.
"""

from keras_policies.diagnostics.summary.overflow import Overflow, first_overflow
from keras_policies.diagnostics.summary.printing import summary
from keras_policies.diagnostics.summary.rows import Row, rows_of

__all__ = ["Overflow", "Row", "first_overflow", "rows_of", "summary"]
