"""Build the sdist and the wheel, check their contents, and use the wheel.

Run `python tools/distributions.py [BACKEND ...]` in a clone. Each backend has its own
virtualenv with the wheel, the extra of the backend, and pytest.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile

import all_backends

ROOT = pathlib.Path(__file__).parent.parent
NAME = "keras_policies"
# In the repository, but not in the sdist.
NOT_RELEASED = (".ci/", ".github/")
OF_THE_WHEEL = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
PINNED = "-c", str(ROOT / "constraints.txt")
# Run in addition to tools/rescue.py: policies, and how they are saved.
USED = "policies/test_policy.py", "policies/test_global_policy.py"


def run(*command, **options):
    print("$", *command, flush=True)
    subprocess.run(command, check=True, **options)


def tracked():
    """Return the names of the files in the repository."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    return {name for name in listed.splitlines() if (ROOT / name).exists()}


def in_sdist(path):
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def in_wheel(path):
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def check(what, found, expected):
    """Raise if an archive lacks a file or has an unexpected one."""
    if found != expected:
        lacking, more = sorted(expected - found), sorted(found - expected)
        raise SystemExit(f"{what} lacks {lacking}, and has {more}.")
    print(f"{what} holds {len(found)} files, as expected")


def built(folder):
    """Build the sdist and the wheel from it, check both, and return the wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    files = {name for name in tracked() if not name.startswith(NOT_RELEASED)}
    check(sdist.name, in_sdist(sdist), files | {"PKG-INFO"})
    info = wheel.name.split("-py3")[0] + ".dist-info/"
    ours = f"{NAME}/", f"{NAME}_cli.py"
    package = {name for name in files if name.startswith(ours)}
    check(wheel.name, in_wheel(wheel), package | {info + name for name in OF_THE_WHEEL})
    return wheel


def use(wheel, backend, folder):
    """Install the wheel with the extra of a backend, and use it outside the clone."""
    home = folder / f"with-{backend}"  # a folder "jax" would be imported
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *PINNED, f"{wheel}[{backend}]", "pytest")
    options = {
        "cwd": folder,
        "env": {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": ""},
    }
    where = f"import {NAME}; print({NAME}.__file__)"
    found = subprocess.check_output([python, "-c", where], text=True, **options)
    if not pathlib.Path(found).is_relative_to(home):
        raise SystemExit(f"{found.strip()} was imported, not the wheel.")
    run(python, "tools/rescue.py", **options)
    tests = [f"tests/{name}" for name in USED]
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, **options)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = built(folder / "dist")
        for name in "tests", "tools":
            shutil.copytree(ROOT / name, folder / name)
        shutil.copy(ROOT / "pyproject.toml", folder)  # pytest's settings
        for backend in sys.argv[1:] or all_backends.BACKENDS:
            use(wheel, backend, folder)
    print("the distributions are as they should be")


if __name__ == "__main__":
    main()
