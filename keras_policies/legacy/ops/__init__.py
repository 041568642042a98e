"""TensorFlow functions that a legacy Functional model calls, as `keras.ops`.

`layer` turns the configs of op layers into nodes of `keras.ops` and stock layers, so
that a converted model needs nothing of ours. What a function becomes stands in
`elementwise`, `arrays`, `slicing` and `networks`, by its TensorFlow name; `raw` maps
the NodeDefs of TF 2.0 to 2.3 onto them.
"""
