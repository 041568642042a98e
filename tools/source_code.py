"""Writes legacy files as source code, and runs the code in plain Keras.

    KERAS_BACKEND=torch python tools/source_code.py tests/data/legacy \
        --backends torch,jax [--part 0/4] [--only WORD] [--keep FOLDER]

Opens each file, writes its source code and its weights, runs the code in a process
that has not imported this package, loads the weights, and compares the outputs with
those of the file's model, on seeded batches of three and of one. Prints each file whose
outputs differ, and how many files agree, are refused, or cannot be compared, and why.
"""

import argparse
import collections
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import warnings

MODULE, CONSTANTS, WEIGHTS = "model.py", "model.npz", "model.weights.h5"


def answers(folder):
    """Run each module of a folder, and yield `(name, outputs or error)`."""
    import keras

    for case in sorted(pathlib.Path(folder).iterdir()):
        path = case / MODULE
        try:
            namespace = {"__name__": "model", "__file__": str(path)}
            exec(compile(path.read_text("utf-8"), str(path), "exec"), namespace)
            model = namespace["build_model"]()
            model.load_weights(case / WEIGHTS)
            found = [
                called(keras, model, inputs)
                for inputs in pickle.loads((case / "inputs.pkl").read_bytes())
            ]
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        yield case.name, found


def called(keras, model, inputs):
    """Return the outputs of a call outside of training, flat, as float32."""
    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    outputs = keras.tree.flatten(model(inputs, training=False))
    halves = ("float16", "bfloat16")
    return [
        keras.ops.convert_to_numpy(
            keras.ops.cast(x, "float32")
            if keras.backend.standardize_dtype(x.dtype) in halves
            else x
        )
        for x in outputs
    ]


def run(folder, backend):
    """Return the answers of a process with Keras alone on a backend."""
    from keras_policies._common import process

    environment = {**os.environ, **process.CPU, "KERAS_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--answer", folder],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return pickle.loads(done.stdout)


def written(path, folder):
    """Write the code, weights and inputs of a file; return its outputs, or why not."""
    import in_plain_keras
    import keras

    import keras_policies

    try:
        model = keras_policies.load_model(path, compile=False, verify=False)
    except Exception as error:
        return f"not opened ({type(error).__name__})", None
    examples = [*in_plain_keras.examples(model)]
    folder.mkdir()
    try:
        text = keras_policies.to_source(model, constants=folder / CONSTANTS)
    except ValueError as error:
        return f"refused: {error}", None
    except Exception as error:
        return f"CRASHES: {type(error).__name__}: {error}", None
    (folder / MODULE).write_text(text, "utf-8")
    model.save_weights(folder / WEIGHTS)
    (folder / "inputs.pkl").write_bytes(pickle.dumps([nest for nest, _ in examples]))
    allowed = in_plain_keras.allowed_difference(model)
    outputs = [[keras.ops.convert_to_numpy(x) for x in each] for _, each in examples]
    return None, (outputs, allowed)


def compared(answer, expected):
    """Return an outcome, as text."""
    from keras_policies._common import comparing

    outputs, allowed = expected
    if isinstance(answer, str):
        return f"RAISES {answer}"
    for batch, wanted in zip(answer, outputs, strict=True):
        pairs = zip(batch, wanted, strict=True)
        share = max(comparing.relative_difference(*pair) for pair in pairs)
        if not share <= allowed:
            return f"DIFFERS by {share:.2g}"
    return f"agrees at {len(outputs)} batch sizes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--backends", default="torch")
    parser.add_argument("--part", default="0/1", help="every n-th file: 0/4 to 3/4")
    parser.add_argument("--only", default="", help="files with this in their path")
    parser.add_argument("--keep", type=pathlib.Path, help="where the code is kept")
    arguments = parser.parse_args()
    if arguments.answer:
        pickle.dump(dict(answers(arguments.path)), sys.stdout.buffer)
        return
    import in_plain_keras

    warnings.simplefilter("ignore")
    part, parts = map(int, arguments.part.split("/"))
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        cases = arguments.keep or pathlib.Path(folder, "cases")
        cases.mkdir(parents=True, exist_ok=True)
        unpacked, expected = pathlib.Path(folder, "in"), {}
        paths = [
            path
            for path in in_plain_keras.models(arguments.path, unpacked)
            if arguments.only in path
        ]
        for number, path in enumerate(paths[part::parts]):
            case = cases / f"{number:05}"
            reason, outputs = written(path, case)
            if reason is None:
                expected[case.name] = path, outputs
                continue
            counts[re.sub(r"'[^']*'|[0-9.]+", "_", reason)[:100]] += 1
            print(reason, path.removeprefix(folder), flush=True)
            if case.exists():
                case.rename(pathlib.Path(folder, f"refused-{number}"))
        for backend in arguments.backends.split(","):
            for name, answer in run(str(cases), backend).items():
                path, outputs = expected[name]
                outcome = compared(answer, outputs)
                counts[f"{outcome.split(' by ')[0][:60]} on {backend}"] += 1
                if not outcome.startswith("agrees"):
                    print(name, outcome, path.removeprefix(folder), flush=True)
    for outcome, count in counts.most_common():
        print(f"{count:5} {outcome}")


if __name__ == "__main__":
    main()
