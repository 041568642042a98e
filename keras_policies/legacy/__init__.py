"""Legacy models: files that tf.keras 2.0 to 2.15 wrote, opened in Keras 3.

Data flows one way. `readers` turn the bytes of any format into one frozen
`LegacyModel`, `plan` turns it into a `Plan` with the configs of Keras 3, and only
`build` creates a Keras model. TensorFlow is imported only if it is the backend and the
code of a Lambda uses it.
"""
