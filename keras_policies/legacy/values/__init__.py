"""The values that legacy functions compute on, and their evaluator.

A value is one of
- a constant: a number of Python, which takes the dtype of what is beside it, or a numpy
  array, whose dtype is `object` where a symbolic dimension is in it;
- a symbolic dimension, `dims.Dim`: the length of an axis that is known when the model
  runs;
- a tensor of the model, `keras.KerasTensor`.

Where no argument is a tensor of the model, numpy evaluates at once. Otherwise constants
and dimensions become tensors, and a node of `keras.ops` is made. This is partial
evaluation with symbolic dimensions, as jax.export (`_DimExpr`) and torch (`SymInt`)
have it.
"""
