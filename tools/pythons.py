"""Run README's two commands on every Python that is installed.

    python tools/pythons.py FOLDER [--python 3.14] [--only newest] [--tests PATH ...]

Finds Python 3.10 to 3.14 on the PATH and in pyenv, and runs the commands in a copy of
the repository, with virtualenvs in FOLDER: once with the newest dependencies, and once
with the lowest that pyproject.toml allows and this Python has a wheel of, or `--only`
with one of the two. `--tests` replaces the tests of the second command by some.
Prints a table, and exits with 1 if a command failed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
PYTHONS = "3.10", "3.11", "3.12", "3.13", "3.14"
KINDS = "newest", "lowest"
BOUND = re.compile(
    r'''^    "([\w-]+)>=([\d.]+)(?:; python_version >= '3.(\d+)')?"''', re.MULTILINE
)
COMMAND = re.compile(r"^python3 -m venv .*", re.MULTILINE)
# What README's second command runs -> the same with some tests.
CHECK = ".venv/bin/python tools/check.py"
SOME = (
    ".venv/bin/python -m mypy && .venv/bin/python -m pytest -q --co > .venv/collected"
    " && KERAS_BACKEND=torch .venv/bin/python -m pytest -q -m 'not slow' {}"
)


def installed():
    """Return `{version: program}` of the Pythons that are installed."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = {}
    for version in PYTHONS:
        below = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        programs = [shutil.which(f"python{version}"), *map(str, reversed(below))]
        works = (program for program in programs if program and _is(program, version))
        if program := next(works, None):
            found[version] = program
    return found


def _is(program, version):
    """Return whether a program is this Python; shims of pyenv may be none."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == version


def lowest(version, program, folder):
    """Return constraints: the lowest version of each requirement that has a bound."""
    found = BOUND.findall((ROOT / "pyproject.toml").read_text("utf8"))
    bounds = {
        name: bound
        for name, bound, since in found
        if _key(version)[1] >= int(since or 0)
    }
    # Debian's Python has pip in virtualenvs alone; old ones list more than wheels.
    venv = "-m", "venv", "--clear", "--upgrade-deps"
    subprocess.run([program, *venv, folder / "pip"], check=True)
    python = folder / "pip" / "bin" / "python"
    wheels = [(name, _lowest_wheel(python, name, bounds[name])) for name in bounds]
    return [f"{name}=={wheel}" for name, wheel in wheels]


def _lowest_wheel(program, name, bound):
    """Return the lowest version, from a bound on, that a Python has a wheel of."""
    index = [program, "-m", "pip", "index", "versions", name, "--only-binary=:all:"]
    done = subprocess.run(index, capture_output=True, text=True, check=True)
    versions = re.search("Available versions: (.*)", done.stdout)[1].split(", ")
    return min((v for v in versions if _key(v) >= _key(bound)), key=_key)


def _key(version):
    return [int(number) for number in re.findall(r"\d+", version)]


def commands(program, tests, is_lowest):
    """Return README's two commands for a Python."""
    found = COMMAND.findall((ROOT / "README.md").read_text("utf8"))
    if is_lowest:  # the lowest Keras needs an old jax: .ci/run tries them together
        found = [line.replace("[jax]", "[torch]") for line in found]
    if tests:
        found = [line.replace(CHECK, SOME.format(" ".join(tests))) for line in found]
    return [re.sub("^python3", program, line) for line in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python", nargs="+", default=PYTHONS)
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--only", nargs=1, choices=KINDS, default=KINDS)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    programs, results = installed(), {}
    for version in options.python:
        for kind in options.only:
            name = f"{version}, {kind}"
            if version not in programs:
                results[name] = ["not installed"]
                continue
            is_lowest = kind == "lowest"
            results[name] = run(
                version, programs[version], folder, options.tests, is_lowest
            )
    for name, outcomes in results.items():
        print(f"Python {name}: {', '.join(outcomes)}")
    sys.exit(any("FAIL" in outcomes for outcomes in results.values()))


def run(version, program, folder, tests, is_lowest):
    """Run both commands; return PASS or FAIL for each."""
    constraints = lowest(version, program, folder) if is_lowest else []
    print("$", program, *constraints, flush=True)
    (folder / "lowest.txt").write_text("\n".join([*constraints, ""]))
    environment = {**os.environ, "PIP_CONSTRAINT": str(folder / "lowest.txt")}
    if is_lowest:
        environment["KERAS_BACKEND"] = "torch"
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        subprocess.run(["git", "clone", "-q", str(ROOT), copy], check=True)
        outcomes = []
        for line in commands(program, tests, is_lowest):
            print("$", line, flush=True)
            done = subprocess.run(line, shell=True, cwd=copy, env=environment)
            outcomes.append("FAIL" if done.returncode else "PASS")
    return outcomes


if __name__ == "__main__":
    main()
