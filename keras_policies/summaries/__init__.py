"""What the policies of a model are, and which of its numerics are at risk.

`rows` collects the facts, layer by layer; `risks` has the warnings; `table` and
`printing` turn them into text.
"""

from keras_policies.summaries.printing import summary
from keras_policies.summaries.rows import Row, rows_of

__all__ = ["Row", "rows_of", "summary"]
