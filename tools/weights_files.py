"""Opens the files of tests/data/legacy/write_weights_files.py; prints what differs.

KERAS_BACKEND=torch python tools/weights_files.py OUTDIR
"""

import collections
import pathlib
import sys
import warnings

import keras
import numpy as np

import keras_policies

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/helpers"))
import weights_models


def outcome(folder):
    """Return whether all weights, and the optimizer's state, are as they were."""
    release = [int(part) for part in folder.parent.name.split(".")[:2]]
    number = release[0] * 100 + release[1]
    keras.backend.clear_session()
    built = weights_models.Built(keras, int(folder.name), number)
    stored = np.load(folder / "expected.npz")
    has_state = any(path.startswith("m ") for path in stored)
    if has_state:
        try:
            built.train()
        except RuntimeError:  # of torch, for some layers that are called twice
            has_state = False
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            keras_policies.load_weights(built.model, folder / "x.weights.h5")
    except keras_policies.LegacyModelError as error:
        return f"refused: {str(error).partition('.weights.h5: ')[2][:150]}"
    convert = keras.ops.convert_to_numpy
    wrong = [
        path
        for path, variable in built.variables()
        if not np.array_equal(np.squeeze(convert(variable)), np.squeeze(stored[path]))
    ]
    if wrong:
        return f"WRONG: {wrong[:3]}"
    said = [str(each.message) for each in told if "optimizer" in str(each.message)]
    if not has_state or said:
        return "equal, its state told" if said else "equal"
    found = {f"m {path}": value for path, value in built.momenta().items()}
    if any(not np.allclose(found[path], stored[path]) for path in found):
        return "WRONG: the optimizer's state"
    return "equal, with its state"


def main(root):
    counts = collections.Counter()
    for folder in sorted(pathlib.Path(root).glob("*/*")):
        result = outcome(folder)
        counts[folder.parent.name, result.partition(":")[0]] += 1
        if ":" in result or "told" in result:
            print("/".join(folder.parts[-2:]), result, flush=True)
    for (release, result), count in sorted(counts.items()):
        print(release, result, count)


if __name__ == "__main__":
    main(*sys.argv[1:])
