"""What Keras 3 computes otherwise than tf.keras, and what a model has in its place.

    forms       wrong numbers on some backend: steps that all backends compute alike
    extra_axes  convolutions of more axes: TimeDistributed around them
    masks       masks of merging layers, attention and layers over time
    time_steps  activity regularizers in TimeDistributed
    rnn_states  states of stateful RNNs, which Keras does not write to files

docs/keras-faults.md lists these differences, each with the module that handles it.
`stock_layer.py` decides about the first three when a layer is called.
"""
