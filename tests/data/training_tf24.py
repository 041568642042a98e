"""Write training_tf24.json: twenty steps of float16 training in TensorFlow 2.4.

Run in an environment with `tensorflow==2.4.4` (Python 3.8):
`python training_tf24.py`.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mp

STEPS = 20


def train(loss_scale, optimizer):
    rng = np.random.RandomState(0)
    x = rng.uniform(-1, 1, (16, 8)).astype("float32")
    y = (x[:, :1] * 4 + x[:, 1:2] ** 2).astype("float32")
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=loss_scale))
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(4, activation="relu", input_shape=(8,)),
            tf.keras.layers.Dense(1, dtype="float32"),
        ]
    )
    model.set_weights(
        [rng.uniform(-0.7, 0.7, w.shape).astype("float32") for w in model.get_weights()]
    )
    initial = [w.tolist() for w in model.get_weights()]
    model.compile(optimizer, "mse")
    steps = []
    for _ in range(STEPS):
        model.train_on_batch(x, y)
        steps.append(
            {
                "loss_scale": float(model.optimizer.loss_scale),
                "iterations": int(model.optimizer.iterations),
                "weights": [w.tolist() for w in model.get_weights()],
            }
        )
    return {"x": x.tolist(), "y": y.tolist(), "initial": initial, "steps": steps}


def main():
    cases = {
        "fixed": train(128, tf.keras.optimizers.SGD(0.05, momentum=0.5)),
        "dynamic": train(
            tf.mixed_precision.experimental.DynamicLossScale(2.0**20, 3, 2.0),
            # Not Adam: tf.keras counts skipped steps into its bias correction.
            tf.keras.optimizers.SGD(0.05, momentum=0.5),
        ),
    }
    out = {"tf_version": tf.__version__, "numpy": np.__version__, "cases": cases}
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(out))
    for name, case in cases.items():
        print(name, [(s["loss_scale"], s["iterations"]) for s in case["steps"]])


if __name__ == "__main__":
    main()
