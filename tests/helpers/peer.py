"""What the tests of this folder share.

Each stands for a method of a suite that tested the API which this package brings back,
and is written anew: same question, same numbers, on three backends.
"""

import keras
import numpy as np
import pytest
from keras import ops

BACKEND = keras.backend.backend()

# The name of a suite in these tests -> where it is. Those of tf.keras are in
# mixed_precision/, up to 2.3 in mixed_precision/experimental/.
SUITES = {
    "policy_test": "tf.keras 2.0 to 2.6, policy_test.py",
    "layer_test": "tf.keras 2.0 to 2.3, keras_test.py; 2.4 to 2.6, layer_test.py",
    "model_test": "tf.keras 2.0 to 2.3, keras_test.py; 2.4 to 2.6, model_test.py",
    "optimizer_test": "tf.keras 2.0 to 2.6, loss_scale_optimizer_test.py",
    "get_layer_policy_test": "tf.keras 2.2 to 2.6, get_layer_policy_test.py",
    "rewrite_test": "TensorFlow, training/experimental/loss_scale_optimizer_test.py",
    "loss_scale_test": "TensorFlow, training/experimental/loss_scale_test.py",
    "grad_scaler": "torch, test/test_cuda.py",
    "jmp.loss_scale_test": "jmp, _src/loss_scale_test.py",
    "jmp.policy_test": "jmp, _src/policy_test.py",
}


def stands_for(suite, *methods):
    """Mark a test with the suite and the methods that it stands for."""
    return pytest.mark.stands_for(suite, *methods)


def documented(place, raises=(AssertionError, pytest.fail.Exception)):
    """Mark a test of what differs on purpose, with the place that says so."""
    reason = f"documented: PORTING.md, {place}"
    return pytest.mark.xfail(strict=True, raises=raises, reason=reason)


def numpy(x):
    return ops.convert_to_numpy(x)


def numbers(x):
    return numpy(x).tolist()


def tensor(x, dtype="float32"):
    return ops.convert_to_tensor(x, dtype=dtype)


def dtype_of(x):
    return keras.backend.standardize_dtype(x.dtype)


def scaled_gradients(optimizer, loss, variables):
    """Return the gradients of the scaled sum of `loss()` for variables."""

    def scaled():
        return optimizer.scale_loss(ops.sum(loss()))

    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            result = scaled()
        return tape.gradient(result, [v.value for v in variables])
    if BACKEND == "torch":
        for variable in variables:
            variable.value.grad = None
        scaled().backward()
        return [v.value.grad for v in variables]
    import jax

    def of_values(values):
        pairs = zip(variables, values, strict=True)
        with keras.StatelessScope(state_mapping=[*pairs]):
            return scaled()

    return jax.grad(of_values)([v.value for v in variables])


def minimize(optimizer, loss, variables):
    """Take one step, as `optimizer.minimize` did; return the gradients it was given."""
    gradients = scaled_gradients(optimizer, loss, variables)
    kept = [numpy(gradient).copy() for gradient in gradients]
    optimizer.apply(gradients, variables)
    return [gradient.tolist() for gradient in kept]


@keras.saving.register_keras_serializable("peers")
class Identity(keras.regularizers.Regularizer):
    """A loss that is the weight itself."""

    def __call__(self, x):
        return ops.sum(x)

    def get_config(self):
        return {}


@keras.saving.register_keras_serializable("peers")
class Add(keras.layers.Layer):
    """Adds a scalar weight, 1 at first, to its input."""

    def __init__(self, regularizer=None, autocast_weight=True, **kwargs):
        super().__init__(**kwargs)
        self.weight_regularizer = keras.regularizers.get(regularizer)
        self.autocast_weight = autocast_weight
        self.seen = None

    def build(self, shape):
        self.v = self.add_weight(
            shape=(),
            initializer="ones",
            regularizer=self.weight_regularizer,
            autocast=self.autocast_weight,
            name="v",
        )

    def call(self, x):
        self.seen = dtype_of(x), dtype_of(ops.convert_to_tensor(self.v))
        return x + ops.cast(self.v, x.dtype)

    def get_config(self):
        regularizer = keras.regularizers.serialize(self.weight_regularizer)
        own = {"regularizer": regularizer, "autocast_weight": self.autocast_weight}
        return {**super().get_config(), **own}


def mean_output(y_true, y_pred):
    """Return a loss whose gradient is the same whatever the target."""
    return ops.mean(y_pred) + 0 * ops.mean(y_true)


def model_of(*layers, size=1, batch=None, dtype=None):
    """Return a Functional model whose outputs are float32."""
    outputs = inputs = keras.Input((size,), batch_size=batch, dtype=dtype)
    for layer in layers:
        outputs = layer(outputs)
    outputs = keras.layers.Activation("linear", dtype="float32")(outputs)
    return keras.Model(inputs, outputs)


def fit(model, size=1, batch=2, steps=1):
    """Train on ones, one batch a step."""
    x = np.ones((batch * steps, size), "float32")
    model.fit(x, x, batch_size=batch, shuffle=False, verbose=0)
