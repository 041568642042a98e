"""Open models whose traced functions were changed, and check each of them.

    KERAS_BACKEND=torch python tools/fuzz.py tests/data/legacy/lost --inputs 100000

A change leaves most functions valid: another number in a constant or an attribute,
another op of the same kind, or inputs in another order. It changes all nodes with one
op and name, because the ops of a layer are both in the layer's functions and in the
model's. In one of ten inputs it changes a single node, which the check has to find.

Prints how many inputs are refused, agree, are not checked, and differ, and a line for
each input that differs. An input that raises an unexpected error or takes more than 30
s is a finding.
"""

import argparse
import collections
import gc
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time
import warnings

import checked
import keras
import numpy as np

from keras_policies import LegacyModelError
from keras_policies.legacy import loading
from keras_policies.legacy.readers.checkpoint import protos

MAX_SECONDS, ADDRESS_SPACE = 30, 16 * 2**30
CLEARED = 100  # inputs, after which Keras forgets the names of its layers
# Ops that take the same inputs and attributes.
KINDS = [
    kind.split()
    for kind in (
        "Abs Ceil Cos Elu Erf Exp Floor Log1p Neg Relu Relu6 Rint Round Rsqrt Selu "
        "Sigmoid Sign Sin Softmax Softplus Softsign Sqrt Square Tanh",
        "Add AddV2 Sub Mul RealDiv DivNoNan FloorDiv FloorMod Maximum Minimum Pow "
        "SquaredDifference",
        "Equal NotEqual Greater GreaterEqual Less LessEqual",
        "Sum Mean Max Min Prod",
        "All Any",
        "LogicalAnd LogicalOr",
        "ArgMax ArgMin",
        "MaxPool AvgPool",
        "Cumsum Cumprod",
        "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd",
    )
]
# Left alone: they compute nothing, or only write and read checkpoints.
IDLE = "Identity", "IdentityN", "NoOp", "ReadVariableOp", "StopGradient"
OF_FILES = "save", "restore"  # in the names of functions
NUMBERS = {1: "float32", 3: "int32", 9: "int64", 10: "bool"}
FIELDS = {1: "float_val", 3: "int_val", 9: "int64_val", 10: "bool_val"}
PADDINGS = b"SAME", b"VALID"


def other_number(rng, value):
    """Return a number near another one, or one that is often special."""
    if isinstance(value, bool):
        return not value
    half = 0.5 if isinstance(value, float) else 3
    return rng.choice((value + 1, value - 1, -value, 2 * value, 0, 1, 2, -1, half))


def change_constant(rng, node):
    """Change one number of a constant."""
    tensor = next(attr.value.tensor for attr in node.attr if attr.key == "value")
    if tensor.dtype not in NUMBERS:
        return
    held = getattr(tensor, FIELDS[tensor.dtype])
    stored = np.frombuffer(tensor.tensor_content, NUMBERS[tensor.dtype]).tolist()
    values = stored or [*held]
    if values:
        at = rng.randrange(len(values))
        values[at] = other_number(rng, values[at])
        array = np.array(values).astype(NUMBERS[tensor.dtype])
        if stored:
            tensor.tensor_content = array.tobytes()
        else:
            held[:] = array.tolist()


def change_attribute(rng, node):
    """Change a number, a switch or a padding among the attributes of a node."""
    values = [attr.value for attr in node.attr if not attr.key.startswith("_")]
    numbers = [v for v in values if v.list.i or v.s in PADDINGS]
    numbers += [v for v in values for name in "ifb" if v.HasField(name)]
    if not numbers:
        return
    value = rng.choice(numbers)
    if value.list.i:
        at = rng.randrange(len(value.list.i))
        value.list.i[at] = other_number(rng, value.list.i[at])
    elif value.s:
        value.s = PADDINGS[value.s == PADDINGS[0]]
    else:
        name = next(name for name in "ifb" if value.HasField(name))
        setattr(value, name, other_number(rng, getattr(value, name)))


def change_op(rng, node):
    """Make another op of a node, which takes the same inputs."""
    for kind in KINDS:
        if node.op in kind:
            node.op = rng.choice(kind)
            return


def change_inputs(rng, node):
    """Swap two inputs of a node, or give it one of them twice."""
    count = sum(not text.startswith("^") for text in node.input)
    if count > 1:
        one, two = rng.sample(range(count), 2)
        first, second = node.input[one], node.input[two]
        node.input[one] = second
        node.input[two] = rng.choice((first, first, second))


CHANGES = change_attribute, change_op, change_op, change_inputs


def change(rng, functions):
    """Change nodes of one op and name; return what was changed to which."""
    nodes = [node for function in functions for node in function.node_def]
    chosen = rng.choice([node for node in nodes if node.op not in IDLE])
    edit = change_constant if chosen.op == "Const" else rng.choice(CHANGES)
    name, op, seed = chosen.name.rpartition("/")[2], chosen.op, rng.random()
    alike = [n for n in nodes if n.op == op and n.name.rpartition("/")[2] == name]
    alike = [chosen] if rng.random() < 0.1 else alike
    for node in alike:
        edit(random.Random(seed), node)
    return f"{edit.__name__} of {len(alike)} {op} {chosen.name} to {chosen.op}"


def mutated(rng, data):
    """Return the bytes of a SavedModel after some changes, and what they are."""
    found = protos.parse("SavedModel", data)
    graph = protos.parse("Graph", found.meta_graphs[0].graph_def)
    stored = graph.library.function
    functions = [protos.parse("FunctionDef", function) for function in stored]
    changed = [f for f in functions if not any(x in f.signature.name for x in OF_FILES)]
    changes = [change(rng, changed) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    stored[:] = [function.SerializeToString() for function in functions]
    found.meta_graphs[0].graph_def = graph.SerializeToString()
    return found.SerializeToString(), changes


def outcome(path):
    """Return how opening a model with its check ends, and what is said about it."""
    signal.alarm(MAX_SECONDS)
    try:
        options = loading.checked_options("rebuild")
        built = loading.rebuild(path, None, options, verify=True)
    except LegacyModelError as error:
        if error.code == "KP501" or "cannot be called" in str(error):
            return "differs", str(error)
        return "refused", str(error)
    except (Exception, TooSlowError) as error:
        return "another error", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    if built.check.difference is None:
        return "not checked", built.check.reason
    return "agrees", ""


class TooSlowError(BaseException):
    """An input takes too long; nothing in the package expects this."""


def too_slow(*_):
    raise TooSlowError


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--largest", type=int, default=300_000, help="original, in bytes"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    counts, start = collections.Counter(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        models = checked.saved_models(options.path, pathlib.Path(folder))
        originals = {path: (path / "saved_model.pb").read_bytes() for path in models}
        models = [path for path in models if len(originals[path]) < options.largest]
        gc.freeze()
        for seed in range(options.seed, options.seed + options.inputs):
            rng = random.Random(seed)
            path = rng.choice(models)
            data, changes = mutated(rng, originals[path])
            (path / "saved_model.pb").write_bytes(data)
            found, said = outcome(path)
            (path / "saved_model.pb").write_bytes(originals[path])
            counts[found] += 1
            if found in ("differs", "another error"):
                print(f"{seed} {found}: {changes}: {said}", flush=True)
            if seed % CLEARED == 0:
                keras.backend.clear_session()
    print(f"{dict(counts)} in {time.monotonic() - start:.0f} s")
    return int(counts["another error"] > 0)


if __name__ == "__main__":
    sys.exit(main())
