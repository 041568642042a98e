"""Run the old lines of tools/porting.txt, and list the names that it must have.

Run in an environment of each release, `python write_porting.py`: with `tensorflow`
2.0.0, 2.1.4 and 2.2.3 (Python 3.7), 2.3.4 and 2.4.4 (3.8), 2.10.1 (3.10), 2.15.1
(3.11). Each run adds its release to `porting.json`, what each old line gave, and up to
2.4 to `legacy_names.json`: per module, name and member, the releases that have it.
"""

import json
import os
import pathlib
import sys
import types

import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))

import porting  # noqa: E402

RELEASE = ".".join(tf.__version__.split(".")[:2])
MODULES = [
    "tf.keras.mixed_precision",
    "tf.keras.mixed_precision.experimental",
    "tf.mixed_precision.experimental",
    "tf.train.experimental",
    "tf.compat.v1.keras.mixed_precision",
    "tf.compat.v1.keras.mixed_precision.experimental",
    "tf.compat.v1.mixed_precision",
    "tf.compat.v1.mixed_precision.experimental",
    "tf.compat.v1.train.experimental",
]


def _members(value):
    """Return the public members of a class that TensorFlow's own bases do not have."""
    if not isinstance(value, type):
        return []
    own = [
        base
        for base in value.__mro__
        if "mixed_precision" in base.__module__ or "loss_scale" in base.__module__
    ]
    return sorted({name for base in own for name in vars(base) if name[0] != "_"})


def _public(module):
    found = tf
    for part in module.split(".")[1:]:
        found = getattr(found, part, None)
    for name in dir(found) if found is not None else []:
        value = getattr(found, name)
        if name[0] != "_" and not isinstance(value, types.ModuleType):
            yield name, value


def _add(names, key):
    releases = names.setdefault(key, [])
    if RELEASE not in releases:
        releases.append(RELEASE)
        releases.sort(key=porting.RELEASES.index)


def _write_names():
    path = HERE / "legacy_names.json"
    names = json.loads(path.read_text()) if path.exists() else {}
    for module in MODULES:
        for name, value in _public(module):
            known = names.setdefault(module, {})
            _add(known, name)
            for member in _members(value):
                _add(known, f"{name}.{member}")
    path.write_text(json.dumps(names, indent=1, sort_keys=True) + "\n")


def _result(section, row):
    """Return `[True, value]` or `[False, error]` of an old line, run in a process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = [True, porting.plain(porting.run(section.old, row.old))]
        except Exception as error:  # whatever an old line raises is what we look for
            result = [False, type(error).__name__]
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return json.loads(pipe.read())


def _write_results():
    path = HERE / "porting.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    now = {}
    for section in porting.sections():
        for row in section.rows:
            if row.old:
                before = results.get(section.title, {}).get(row.old, {})
                before[RELEASE] = _result(section, row)
                now.setdefault(section.title, {})[row.old] = before
    path.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    if porting.RELEASES.index(RELEASE) <= porting.RELEASES.index("2.4"):
        _write_names()
    _write_results()
