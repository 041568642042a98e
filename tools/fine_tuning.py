"""Fine-tune two models whose code is lost, and compare with tf.keras.

`python tools/fine_tuning.py [PICTURE.png]` repeats the steps that write_fine_tuning.py
(tests/data/legacy) took in TensorFlow 2.15.1, from the same weights and on the same
batches. It exits with 1 if the losses differ too much. For the autoencoder, which draws
no random numbers, only rounding is allowed. For the transformer, whose dropouts draw
other numbers, the difference between seeds is allowed. The picture shows both.
"""

import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("KERAS_BACKEND", "jax")

import _helpers  # noqa: F401 - finds them
import keras
import legacy_files
import numpy as np

import keras_policies

ARCHIVE = legacy_files.FOLDER / "fine_tuning.tar.xz"
LOSSES = {"autoencoder": "mse", "transformer": "sparse_categorical_crossentropy"}
STEPS, BATCH, RATE = 300, 32, 0.005
WINDOW = 30  # steps whose mean is compared
ROUNDING = 0.02  # of the loss, after chaotic hundreds of steps
SEEDS = 4  # how many standard deviations of the seeds' means may lie between both


def fine_tuned(path, x, y, loss, seed):
    """Return the losses of all steps, on the batches of a seed."""
    keras.utils.set_random_seed(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*classes of these layers")
        model = keras_policies.load_model(path, compile=False)
    model.compile(keras.optimizers.Adam(RATE, epsilon=1e-7), loss)
    random, losses = np.random.RandomState(seed), []
    for _ in range(STEPS):
        rows = random.randint(len(x), size=BATCH)
        model.reset_metrics()
        losses.append(float(model.train_on_batch(x[rows], y[rows])))
    return losses


def smooth(losses):
    """Return the means of windows of the steps, `(seeds, windows)`."""
    return losses.reshape(len(losses), -1, WINDOW).mean(axis=2)


def differs(name, found, expected):
    """Return whether two sets of curves differ, after printing both."""
    found, expected = smooth(found), smooth(expected)
    if name == "autoencoder":
        allowed = ROUNDING * expected
        difference = np.abs(found - expected)
    else:
        deviation = np.sqrt(found.var(axis=0) + expected.var(axis=0))
        allowed = SEEDS * deviation / np.sqrt(len(found)) + ROUNDING * expected.mean(0)
        difference = np.abs(found.mean(axis=0) - expected.mean(axis=0))
    print(f"{name}, means of {WINDOW} steps over {len(found)} seeds")
    print("  tf.keras:", *(f"{loss:.4f}" for loss in expected.mean(axis=0)))
    print("  Keras 3: ", *(f"{loss:.4f}" for loss in found.mean(axis=0)))
    share = float(np.max(difference / allowed))
    print(f"  the largest difference is {share:.2f} of what is allowed")
    return share > 1


def _band(axis, curves, color, label, width=1.5):
    """Draw the mean of the seeds of smoothed curves, and the band that holds them."""
    curves = smooth(curves)
    middles = (np.arange(curves.shape[1]) + 0.5) * WINDOW
    style = {"color": color, "label": label, "linewidth": width}
    axis.plot(middles, curves.mean(axis=0), **style)
    band = curves.min(axis=0), curves.max(axis=0)
    axis.fill_between(middles, *band, color=color, alpha=0.25, linewidth=0)


def draw(path, curves):
    """Draw the curves of both and their difference, `{name: (found, expected)}`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        *(2, len(curves)),
        figsize=(10, 5),
        sharex=True,
        gridspec_kw={"height_ratios": [2, 1]},
    )
    for (above, below), (name, pair) in zip(axes.T, curves.items(), strict=True):
        found, expected = pair
        # Wider, since the other line may lie on it.
        _band(above, expected, "tab:orange", "tf.keras 2.15.1", width=5)
        _band(above, found, "tab:blue", f"Keras {keras.__version__}")
        _band(below, found - expected, "black", "")
        below.axhline(0, color="0.5", linewidth=1, linestyle="--")
        limit = smooth(expected).mean(axis=0).max() / 4  # a quarter of the losses above
        below.set(xlabel="step", ylabel="difference", ylim=(-limit, limit))
        above.set(title=name, ylabel="loss with added losses", ylim=(0, None))
        above.legend()
    figure.suptitle(f"Means of {WINDOW} steps; the bands hold all seeds")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main(picture=None):
    curves = {}
    with tempfile.TemporaryDirectory() as folder:
        root = legacy_files.unpacked(pathlib.Path(folder), [ARCHIVE])
        for name, loss in LOSSES.items():
            with np.load(root / name / "expected.npz") as file:
                expected = dict(file)
            data = root / name / "model", expected["x"], expected["y"], loss
            seeds = range(len(expected["loss"]))
            found = np.array([fine_tuned(*data, seed) for seed in seeds])
            curves[name] = found, expected["loss"]
    if picture is not None:
        draw(picture, curves)
    differences = [differs(name, *pair) for name, pair in curves.items()]
    sys.exit(any(differences))


if __name__ == "__main__":
    main(*sys.argv[1:])
