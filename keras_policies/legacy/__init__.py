"""Legacy models: files that tf.keras 2.0 to 2.15 wrote, opened in Keras 3.

Data flows one way. `readers` turn the bytes of any format into one frozen
`LegacyModel`, `plan` turns that into a `Plan` with the configs of Keras 3, and `build`
alone makes a model of it. TensorFlow is imported only where it is the backend and a
Lambda names it.
"""
