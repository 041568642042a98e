"""Train on handwritten digits in float16, save, and open the file in plain Keras."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import keras_policies as mp

OPEN_WITHOUT_US = """
import sys
sys.modules["keras_policies"] = None  # an import of it would raise
import keras, numpy as np
data = np.load(sys.argv[2])
model = keras.saving.load_model(sys.argv[1])
print(model.evaluate(data["x"], data["y"], verbose=0)[1])
"""


def main():
    keras.utils.set_random_seed(0)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32").reshape(-1, 8, 8, 1)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0)

    policy = mp.Policy("mixed_float16", loss_scale=mp.DynamicLossScale(2**20, 100))
    mp.set_policy(policy)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax", dtype="float32"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=8, callbacks=[mp.LossScaleLogger()])
    accuracy = model.evaluate(x_test, y_test, verbose=0)[1]

    with tempfile.TemporaryDirectory() as folder:
        file, data = Path(folder, "digits.keras"), Path(folder, "test.npz")
        model.save(file)
        np.savez(data, x=x_test, y=y_test)
        command = [sys.executable, "-c", OPEN_WITHOUT_US, file, data]
        printed = subprocess.run(command, capture_output=True, text=True, check=True)
    reopened = float(printed.stdout.split()[-1])
    print(f"accuracy on the test set, trained under {policy.name}: {accuracy:.4f}")
    print(f"the same file opened without keras_policies:          {reopened:.4f}")


if __name__ == "__main__":
    main()
