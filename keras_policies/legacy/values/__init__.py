"""The values that legacy functions compute with, and their evaluator.

A value is one of
- a constant: a Python number, which takes the dtype of the other operand, or a numpy
  array, of the dtype `object` if it contains symbolic dimensions;
- a symbolic dimension, `dims.Dim`: the length of an axis that is known only when the
  model runs;
- a tensor of the model, `keras.KerasTensor`.

If no argument is a tensor of the model, numpy evaluates at once. Otherwise constants
and dimensions become tensors, and `keras.ops` makes a node. This is partial evaluation
with symbolic dimensions, as in jax.export (`_DimExpr`) and torch (`SymInt`).
"""
