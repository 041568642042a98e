"""Opens legacy files, saves them, and calls the saved models in plain Keras.

    KERAS_BACKEND=torch python tools/in_plain_keras.py tests/data/legacy \
        --backends torch,tensorflow [--part 0/4] [--only WORD]

Plain Keras runs in one process for each backend, without this package. The outputs are
compared with those of the original model, on seeded batches of three and of one. Prints
each file whose outputs differ, and how many files agree, are refused, or cannot be
compared, and why.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import tarfile
import tempfile
import warnings

# oneDNN computes products of float16 wrongly on some CPUs.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras

import keras_policies
from keras_policies._common import comparing
from keras_policies._common.process import EndedError
from keras_policies.backends.running import backend as running
from keras_policies.legacy import plain_keras, verification
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.readers.sources import models_in

ALLOWED = {"float32": 1e-4, "float16": 5e-2, "bfloat16": 1e-1}


def models(path, folder):
    """Return the models below a path, those in archives unpacked to a folder."""
    for archive in sorted(path.rglob("*.tar.xz")):
        name = archive.relative_to(path).as_posix().replace("/", "-")
        with tarfile.open(archive) as opened:
            opened.extractall(folder / name, filter="data")
    roots = path, folder
    found = (item for root in roots for item in models_in(str(root), 99, []))
    return sorted(found)


def examples(model):
    """Yield `(inputs, outputs)` at batch sizes 3 and 1, where the model allows them."""
    for batch in 3, 1:
        shapes = [tuple(x.shape) for x in getattr(model, "inputs", None) or ()]
        if not shapes or any(s and s[0] not in (None, batch) for s in shapes):
            continue
        specs = [
            TensorSpec((batch, *shape[1:]) if shape else (), x.dtype)
            for shape, x in zip(shapes, model.inputs, strict=True)
        ]
        for recipe in comparing.recipes(specs):
            arrays = comparing.draw(specs, recipe)
            nest = keras.tree.pack_sequence_as(getattr(model, "input", 0), arrays)
            with contextlib.suppress(Exception):
                yield nest, running.outputs(model, nest)
                break


def allowed_difference(model):
    """Return the allowed difference of outputs, as a share of the largest number."""
    policies = {layer.compute_dtype for layer in model._flatten_layers()}
    return max(ALLOWED.get(dtype, 1e-4) for dtype in policies)


def tried(path, written, processes):
    """Return an outcome, as text, of a file."""
    try:
        model = keras_policies.load_model(path, compile=False, verify=False)
    except Exception as error:
        return f"refused ({type(error).__name__})"
    model.save(written)
    if reason := plain_keras.obstacle(written):
        return f"not compared: {reason.split(':')[0]}"
    allowed = allowed_difference(model)
    found = [*examples(model)]
    if not found or verification.lacks_texts(keras.tree.flatten(found[0][0])):
        return "not compared: no inputs"
    for nest, wanted in found:
        for name, call in processes.items():
            try:
                outputs, _ = call(written, nest)
            except (plain_keras.PlainKerasError, EndedError) as error:
                return f"RAISES on {name}: {error}"
            pairs = zip(outputs, wanted, strict=True)
            share = max(comparing.relative_difference(*pair) for pair in pairs)
            if not share <= allowed:
                batch = len(keras.tree.flatten(nest)[0])
                return f"DIFFERS on {name} at batch size {batch} by {share:.2g}"
    return f"agrees at {len(found)} batch sizes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--backends", default="jax,tensorflow,torch")
    parser.add_argument("--part", default="0/1", help="every n-th file: 0/4 to 3/4")
    parser.add_argument("--only", default="", help="files with this in their path")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = collections.Counter()
    part, parts = map(int, arguments.part.split("/"))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        unpacked, new = pathlib.Path(folder, "in"), pathlib.Path(folder, "new.keras")
        names = arguments.backends.split(",")
        processes = {
            n: stack.enter_context(contextlib.closing(plain_keras.Process(n)))
            for n in names
        }
        paths = [p for p in models(arguments.path, unpacked) if arguments.only in p]
        for path in paths[part::parts]:
            outcome = tried(path, new, processes)
            counts[outcome.split(" by ")[0].split(": it cannot")[0]] += 1
            if outcome.startswith(("DIFFERS", "RAISES")):
                print(outcome, path.removeprefix(folder), flush=True)
    for outcome, count in counts.most_common():
        print(f"{count:5} {outcome}")


if __name__ == "__main__":
    main()
