"""Legacy models: files that tf.keras 2.0 to 2.15 wrote, opened in Keras 3.

Data flows one way: a reader (`saved_model`, `hdf5`, `keras_archive`) turns bytes
into one frozen `model.LegacyModel`; `layers`, `graph`, `policies` and `training`
turn its configs into those of Keras 3; `build` alone makes a model. TensorFlow is
never imported, but where it is the backend and a Lambda names it.
"""
