"""Change one node of models whose layers are recognised, and compare what opens.

    KERAS_BACKEND=torch python tools/mutants.py tests/data/legacy --only nearly

Changes the SavedModels in the archives below a folder whose names contain a text.

After each node with float32 output, one at a time, a mutant has another op: a clip, a
minimum, a `where`, a scale of 1.001, an `abs` or a sum with a constant. The same node
is changed in all functions that contain it. A mutant is right if it is refused, or if
it computes what its own graph does at scales from 1 to 1,000, for batches of 2 and 5,
in training too, with the same gradients, and if it moves statistics as the graph does.

Prints how many mutants are refused, right, warned of, and wrong; a line for each wrong.
"""

import argparse
import collections
import pathlib
import random
import sys
import tempfile
import warnings

import _helpers  # noqa: F401
import keras
import mutations


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of their names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, counts = random.Random(options.seed), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        models = mutations.unpacked(options.path, pathlib.Path(folder), options.only)
        kept = {path: (path / "saved_model.pb").read_bytes() for path in models}
        sites = [(path, *site) for path in models for site in mutations.sites(path)]
        rng.shuffle(sites)
        for number, (path, *site) in enumerate(sites[: options.mutants]):
            mutations.mutate(path, *site)
            found, said = mutations.outcome(path)
            (path / "saved_model.pb").write_bytes(kept[path])
            counts[found] += 1
            if found == "wrong":
                print(f"wrong: {path.parent.name} {site}: {said}", flush=True)
            if number % 50 == 0:
                print(number, dict(counts), flush=True)
                keras.backend.clear_session()
    print(dict(counts))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
