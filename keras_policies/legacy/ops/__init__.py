"""TensorFlow functions that a legacy Functional model calls, as `keras.ops`.

`layer` turns the configs of op layers into nodes of `keras.ops` and stock layers, so
that a converted model needs nothing of ours. What a function becomes stands by its
TensorFlow name in `elementwise`, `mathematics`, `arrays`, `indexing`, `algebra`,
`networks` and `images`; `table` has them all, and `raw` maps the NodeDefs of TF 2.0 to
2.3 onto them.
`kinds` checks arguments; `sizes` and `batch` follow what is known only when it runs.
"""
