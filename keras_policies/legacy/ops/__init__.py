"""TensorFlow functions that legacy models call, as `keras.ops` and stock layers.

`table` finds a function by a name that files record. A name's namespace is the module's
first word: `tf.nn.softmax` is in `nn`, `tf.linalg.matmul` in `linalg`;
names directly under `tf`, such as `tf.concat`, are in the `array_*` modules.

`registry` has the decorator that enters a function, `kinds` checks its arguments, and
`sizes` handles sizes that are known only when the model runs. `layer` puts op layers
into a model, and `node_def` reads the NodeDefs of TF 2.0 to 2.3.
"""
