"""TensorFlow functions, written as `keras.ops` and stock layers.

A name's namespace is the module's first word: `tf.nn.softmax` is in `nn`; names
directly under `tf`, such as `tf.concat`, are in the `array_*` modules.
"""
