"""Run the programs of tests/ports under an old release, and write down what they did.

Run in an environment of each release, `python write_ports.py`: with `tensorflow` 2.0.0
(Python 3.7), 2.2.3, 2.3.4 and 2.4.4 (3.8), each with `protobuf<3.21`, and up to 2.2
with `numpy<1.19` and `h5py<3` too. Each run adds its release to `ports.json`: per run
of a program its losses, loss scales and weights, or the error that it ended in. With
names after it, `python write_ports.py resnet bert`, it runs only those again.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ports"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import programs  # noqa: E402


def _rounded(value):
    """Return numbers with seven digits, as many as float32 has."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value if value is None else float(f"{value:.7g}")


def _record(name):
    """Return what a run gave, made in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--show", name],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        *_, error = done.stderr.strip().splitlines()
        return {"error": error.split(":")[0].split(".")[-1]}
    return _rounded(json.loads(done.stdout.splitlines()[-1]))


def main(names):
    from tensorflow import __version__

    release = ".".join(__version__.split(".")[:2])
    path = HERE / "ports.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    now = {}
    for name in sorted(programs.PORTS):
        now[name] = dict(before.get(name, {}))
        if name in (names or programs.PORTS):
            now[name][release] = _record(name)
            print(release, name, now[name][release].get("error", "ran"), flush=True)
    lines = []  # one for each run and release, so that a diff shows which changed
    for name, records in sorted(now.items()):
        each = (
            f'"{key}": {json.dumps(records[key], sort_keys=True)}'
            for key in sorted(records)
        )
        lines.append(f'"{name}": {{\n' + ",\n".join(each) + "\n}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        print(json.dumps(programs.run(sys.argv[2])))
    else:
        main(sys.argv[1:])
