"""Compare what float16 and float32 learn: on digits, two networks, five seeds.

KERAS_BACKEND=torch python tools/learning.py
"""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from keras_policies import DynamicLossScale, Policy

POLICIES = {
    "float32": lambda: Policy("float32"),
    "mixed_float16": lambda: Policy(
        "mixed_float16", loss_scale=DynamicLossScale(2.0**20, increment_period=50)
    ),
}
LAYERS = {
    "dense": lambda: [
        keras.layers.Flatten(),
        keras.layers.Dense(64, "relu"),
        keras.layers.Dense(64, "relu"),
    ],
    "convolutional": lambda: [
        keras.layers.Conv2D(16, 3, padding="same"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Flatten(),
    ],
}
SEEDS = range(5)
# For the means over the seeds; the mean of float32 trainings varies as much.
LIMIT = 0.01


def accuracy(kind, policy, seed, epochs=12):
    """Return the accuracy of a trained network on unseen digits, from 0 to 1."""
    keras.utils.set_random_seed(seed)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32").reshape(-1, 8, 8, 1)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=seed)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(POLICIES[policy]())
    try:
        model = keras.Sequential([keras.Input((8, 8, 1)), *LAYERS[kind]()])
        model.add(keras.layers.Dense(10, dtype="float32"))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
    finally:
        keras.config.set_dtype_policy(before)
    model.fit(x, y, batch_size=64, epochs=epochs, verbose=0)
    return float(model.evaluate(x_test, y_test, verbose=0)[1])


def main():
    is_good = True
    for kind in LAYERS:
        found = {p: [accuracy(kind, p, seed) for seed in SEEDS] for p in POLICIES}
        means = {policy: np.mean(values) for policy, values in found.items()}
        for policy, values in found.items():
            each = " ".join(f"{value:.3f}" for value in values)
            print(f"{kind:14}{policy:14} mean {means[policy]:.4f}, seeds {each}")
        is_good &= means["mixed_float16"] > means["float32"] - LIMIT
    print("PASS" if is_good else "FAIL")
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
