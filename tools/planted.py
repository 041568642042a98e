"""Plant faults in a copy of the package, one at a time, and print which tests fail.

    python tools/planted.py [--only WORDS] [--all] [--slow]

This shows what the tests catch. Each fault is a change of a line or two that a person
could make; most faults raise no error, but compute something else. The tests that are
likely to notice run first. If they pass, those tests of the changed package run that
`tools/check.py` runs. The first failure ends the run; `--all` also runs the other
tests, and `--slow` also runs tests marked `slow`. `--only WORDS` plants only faults
whose names contain WORDS. The exit status is 1 if a fault is not caught. If the text of
a fault is not found exactly once, the program stops before any test: the package has
changed, and the fault must be adapted.
"""

import argparse
import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

FORK = multiprocessing.get_context("fork")
LIMIT = 1800  # seconds, after which the tests of a fault are stopped
# Package that a fault is in -> the folders of tests to run if the likely ones pass.
FOLDERS = {
    "backends": "scaling",
    "legacy": "legacy hostile",
    "loss_scaling": "scaling ports",
    "policies": "policies ports",
}
ROOT = pathlib.Path(__file__).resolve().parents[1]
SHOWN = 3  # names of tests for each fault


@dataclasses.dataclass(frozen=True)
class Fault:
    """A change of the package that a test should notice.

    Args:
        name: str, what is wrong then.
        path: str, the file in `keras_policies/`.
        old: str, a text that is in the file exactly once.
        new: str, what takes its place.
        likely: str, files and folders in `tests/` that are run first.
    """

    name: str
    path: str
    old: str
    new: str
    likely: str


FAULTS = (
    Fault(
        "a period off by one",
        "loss_scaling/loss_scale.py",
        "full = counted >= self.increment_period",
        "full = counted > self.increment_period",
        "scaling/test_loss_scale.py",
    ),
    Fault(
        "the scale grown to infinity",
        "loss_scaling/loss_scale.py",
        "ops.where(ops.isfinite(grown), limited, before)",
        "grown",
        "scaling/test_loss_scale.py",
    ),
    Fault(
        "gradients not cast",
        "loss_scaling/gradients.py",
        "else ops.cast(grad, variable.dtype)",
        "else grad",
        "scaling/test_backends.py",
    ),
    Fault(
        "an integer policy that casts",
        "policies/policy.py",
        "return super().convert_input(x, autocast and casts, dtype)",
        "return super().convert_input(x, autocast, dtype)",
        "policies/test_policy.py policies/test_infer.py",
    ),
    Fault(
        "infer of integers",
        "policies/deferred.py",
        "            dtype = keras.config.floatx()\n    resolve(layer, dtype)",
        "            pass\n    resolve(layer, dtype)",
        "policies/test_infer.py",
    ),
    Fault(
        "mask `or` for `and` in Concatenate",
        "legacy/assembly/keras_differences/masks.py",
        "return functools.reduce(ops.logical_and, masks)",
        "return functools.reduce(ops.logical_or, masks)",
        "legacy/test_masks.py",
    ),
    Fault(
        "MultiHeadAttention's release for masks",
        "legacy/assembly/keras_differences/masks.py",
        '"MultiHeadAttention": (2, 10),',
        '"MultiHeadAttention": (2, 4),',
        "legacy/test_masks.py",
    ),
    Fault(
        "`time_major=True` accepted",
        "legacy/plan/arguments.py",
        '"time_major": (False,),',
        '"time_major": (False, True),',
        "legacy/test_layer_rows.py legacy/test_layers.py",
    ),
    Fault(
        "the axis of bincount",
        "legacy/ops/math_reductions.py",
        "return ops.sum(counts, axis=-2)",
        "return ops.sum(counts, axis=0)",
        "legacy/test_nodes.py legacy/test_ops.py",
    ),
    Fault(
        "the minimum of an empty segment of integers",
        "legacy/ops/math_reductions.py",
        "turn = -1 if is_integer_dtype(dtype_of(data)) else 0",
        "turn = 0",
        "legacy/test_nodes.py",
    ),
    Fault(
        "a bound of the interpreter",
        "legacy/plan/reconstruction/reference.py",
        "np.all((indices >= 0) & (indices < np.array(lengths)))",
        "np.all((indices >= 0) & (indices <= np.array(lengths)))",
        "legacy/test_checking.py legacy/test_lost_faults.py",
    ),
    Fault(
        "a `.grad` of torch that overlaps",
        "backends/torch.py",
        "any(start + size > following for (start, size), (following, _) in pairs)",
        "any(start > following for (start, size), (following, _) in pairs)",
        "scaling/test_backends.py",
    ),
    Fault(
        "a checksum of a checkpoint not compared",
        "legacy/readers/checkpoint/checkpoint.py",
        "if sorted_table.mask(crc) != entry.crc32c:",
        "if not entry.key:",
        "legacy/test_checkpoint.py hostile/test_hostile.py",
    ),
    Fault(
        "a budget that takes NaN or negative charges",
        "legacy/guards/budget.py",
        "if not 0 <= cost <= remaining:",
        "if cost > remaining:",
        "hostile/test_hostile.py",
    ),
    Fault(
        "a bias paired by `trainable`",
        "legacy/plan/reconstruction/weight_layers.py",
        "candidate = read.shape, read.is_cast, read.variable in trainable",
        "candidate = read.shape, read.is_cast, expected[2]",
        "legacy/test_rules.py",
    ),
    # The issue named those above; for these, no test was looked for beforehand.
    Fault(
        "a fixed scale that skips steps",
        "loss_scaling/loss_scale.py",
        "    skips_nonfinite = False\n",
        "    skips_nonfinite = True\n",
        "scaling/test_loss_scale.py scaling/test_optimizer.py",
    ),
    Fault(
        "policies equal but for their loss scales",
        "policies/policy.py",
        "((type(p), p.name, p.loss_scale) for p in (self, other))",
        "((type(p), p.name) for p in (self, other))",
        "policies/test_policy.py",
    ),
    Fault(
        "averages of weights written before any step",
        "loss_scaling/optimizer.py",
        "is not None and int(self.applied_steps):",
        "is not None:",
        "scaling/test_optimizer.py scaling/test_compile.py",
    ),
    Fault(
        "a limit that does not add up",
        "legacy/guards/budget.py",
        "        self._left -= count\n",
        "        del count\n",
        "hostile/test_hostile.py legacy/test_lost.py",
    ),
    Fault(
        "an array's size that is NaN",
        "legacy/guards/budget.py",
        "if not 0 <= size < math.inf:",
        "if size == math.inf:",
        "hostile/test_hostile.py",
    ),
    Fault(
        "a key twice in a table of a checkpoint",
        "legacy/readers/checkpoint/sorted_table.py",
        "if last is not None and key <= last:",
        "if last is not None and key < last:",
        "legacy/test_checkpoint.py hostile/test_hostile.py",
    ),
    Fault(
        "no slot of amsgrad in Keras 2.3",
        "legacy/readers/slots.py",
        'kinds += ("vhat",)',
        "kinds += ()",
        "legacy/test_keras_2.py",
    ),
    Fault(
        "the rate of a dropout turned round",
        "legacy/plan/reconstruction/idioms.py",
        "return round(1 - keep, 6) if is_scaled",
        "return round(keep, 6) if is_scaled",
        "legacy/test_lost_training.py",
    ),
    Fault(
        "the zeros around a dilated convolution",
        "legacy/plan/reconstruction/layer_rules.py",
        "same = [rate * (size - 1) // 2 for",
        "same = [rate * size // 2 for",
        "legacy/test_suite.py legacy/test_rules.py",
    ),
    Fault(
        "a swish that ignores beta",
        "legacy/ops/nn.py",
        "    if beta == 1:\n",
        "    if beta:\n",
        "legacy/test_nodes.py legacy/test_ops.py",
    ),
    Fault(
        "a number on a boundary in another bucket",
        "legacy/ops/math_reductions.py",
        "-1) >= boundaries",
        "-1) > boundaries",
        "legacy/test_nodes.py legacy/test_ops.py",
    ),
    Fault(
        "division in Python 2 of an integer by a float",
        "legacy/bytecode/python_ops.py",
        '"//" if _is_integer(x) and _is_integer(y) else "/"',
        '"//" if _is_integer(x) or _is_integer(y) else "/"',
        "legacy/test_lambdas.py",
    ),
    Fault(
        "the lower bound of a quotient",
        "legacy/values/dims.py",
        "return -math.inf if lows[1] < 1 else min(lows[0], 0)",
        "return -math.inf if lows[1] < 1 else lows[0]",
        "legacy/test_dims.py",
    ),
    Fault(
        "zeros at padding in Bidirectional of TensorFlow 2.0",
        "legacy/assembly/keras_differences/masks.py",
        "ZEROS_AT_PADDING = 2, 1 ",
        "ZEROS_AT_PADDING = 2, 0 ",
        "legacy/test_masks.py legacy/test_keras_2.py",
    ),
    Fault(
        "a mask of ones that chooses nothing",
        "legacy/assembly/keras_differences/masks.py",
        "ops.logical_or(ops.greater(most, least), ops.equal(most, 1))",
        "ops.greater(most, least)",
        "legacy/test_masks.py",
    ),
)


def check_anchors(faults):
    """Exit, with their names, if some faults do not fit the package."""
    wrong = []
    for fault in faults:
        count = (
            (ROOT / "keras_policies" / fault.path).read_text("utf8").count(fault.old)
        )
        if count != 1:
            wrong.append(f"{fault.name}: its text is in {fault.path} {count} times")
        wrong += [
            f"{fault.name}: there is no tests/{path}"
            for path in fault.likely.split()
            if not (ROOT / "tests" / path).exists()
        ]
    if wrong:
        raise SystemExit("\n".join(wrong))


def copied(folder):
    """Copy the files of the repository to a folder, and return it."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


class Names:
    """A plugin of pytest that writes the names of tests that fail to a file."""

    def __init__(self, path):
        self._path = path

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._write(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self._write(report.nodeid)

    def _write(self, name):
        with open(self._path, "a") as file:
            file.write(f"{name}\n")


def run(folder, arguments, printed, names):
    """Run pytest in a copy, in this process, which a fork has started."""
    os.setsid()  # so that the processes that tests start can be ended with it
    for number in 1, 2:
        os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    os._exit(pytest.main(arguments, plugins=[Names(names)]))


def failing(folder, paths, arguments, left_out=()):
    """Run some tests of a copy, and return the names of those that fail, in order.

    The process is a fork of this one, which has imported Keras, not the package.
    """
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-x"] * (not arguments.all) + ["-m", "not slow"] * (not arguments.slow)
    options += [f"--deselect={name}" for name in left_out]
    with tempfile.TemporaryDirectory() as own:
        printed, names = pathlib.Path(own, "printed"), pathlib.Path(own, "names")
        names.touch()
        tests = FORK.Process(
            target=run, args=(folder, [*options, *paths], printed, names)
        )
        tests.start()
        tests.join(LIMIT)
        is_late = tests.exitcode is None
        if is_late:
            os.killpg(tests.pid, signal.SIGKILL)
            tests.join()
        found = [*dict.fromkeys(names.read_text().splitlines())]
        if is_late and not found:
            print(f"{' '.join(paths)}: none failed in {LIMIT} s", flush=True)
        elif tests.exitcode not in (0, 1) and not found:
            raise SystemExit(printed.read_text()[-2000:])
    return found


@contextlib.contextmanager
def planted(fault, folder):
    """Have a fault in the copy of the package."""
    path = folder / "keras_policies" / fault.path
    text = path.read_text("utf8")
    path.write_text(text.replace(fault.old, fault.new), "utf8")
    try:
        yield
    finally:
        path.write_text(text, "utf8")


def caught_by(fault, folder, arguments, broken):
    """Return the names of the tests that fail with a fault in the copy, and only then.

    Those that fail without it too are added to the set `broken`.
    """
    likely = [f"tests/{each}" for each in fault.likely.split()]
    package = fault.path.partition("/")[0]
    others = [f"tests/{each}" for each in FOLDERS.get(package, "").split()]
    for paths in likely, others:
        while True:
            with planted(fault, folder):
                names = failing(folder, paths, arguments, broken)
            anyway = set(failing(folder, names, arguments)) if names else set()
            broken |= anyway
            if set(names) - anyway:
                return [name for name in names if name not in anyway]
            if not anyway:
                break
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="faults whose names contain this")
    parser.add_argument("--all", action="store_true", help="not only the first test")
    parser.add_argument("--slow", action="store_true", help="run slow tests as well")
    arguments = parser.parse_args()
    check_anchors(FAULTS)
    importlib.import_module("keras")  # once for all forks
    missed, broken = [], set()
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(pathlib.Path(folder))
        for fault in (fault for fault in FAULTS if arguments.only in fault.name):
            tests = caught_by(fault, copy, arguments, broken)
            rest = f" and {len(tests) - SHOWN} more" if len(tests) > SHOWN else ""
            told = ", ".join(tests[:SHOWN]) + rest if tests else "NOT CAUGHT"
            print(f"{fault.name}: {told}", flush=True)
            missed += [] if tests else [fault.name]
    print("fail without a fault, too:", *sorted(broken), sep="\n  ")
    print(f"{len(missed)} not caught:", *missed, sep="\n  ")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
