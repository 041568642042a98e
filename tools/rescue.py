"""Convert a model of TensorFlow 2.4, open it in stock Keras 3, and train it further."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CASE = Path(__file__).parents[1] / "tests/data/legacy/corpus/2.4.4/func_conv_fixed"
OPEN_WITHOUT_US = """
import sys
sys.modules["keras_policies"] = None  # an import of it would raise
import keras
import numpy as np

model = keras.models.load_model(sys.argv[1])
recorded = np.load(sys.argv[2])
print(f"stock Keras {keras.__version__} on {keras.backend.backend()} opens it:")
print(f"  policy of conv_a: {model.get_layer('conv_a').dtype_policy.name}")
x, y = recorded["tx_0"], recorded["ty_0"]
losses = [float(model.train_on_batch(x, y)[0]) for _ in range(20)]
print(f"  trains on: the loss falls from {losses[0]:.3f} to {losses[-1]:.3f}")
assert losses[-1] < 0.9 * losses[0]
"""


def main():
    env = {**os.environ, "KERAS_BACKEND": os.environ.get("KERAS_BACKEND", "jax")}
    with tempfile.TemporaryDirectory() as folder:
        new = str(Path(folder, "model.keras"))
        recorded = str(CASE / "expected.npz")
        command = ["convert", str(CASE / "saved_model"), new, "--verify", recorded]
        for arguments in (
            ["-m", "keras_policies_cli", *command],
            ["-c", OPEN_WITHOUT_US, new, recorded],
        ):
            subprocess.run([sys.executable, *arguments], env=env, check=True)


if __name__ == "__main__":
    main()
