"""Try the package on the newest nightly build of Keras, with a short set of tests.

`python tools/nightly.py FOLDER` creates a virtualenv in FOLDER and runs the tests in
it, on jax. If a test or the installation fails, it prints this and exits with 1.
`.ci/run` does not fail then, because the fault may be in the nightly build.
"""

import os
import pathlib
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).parents[1]
# What keras-policies requires, except `keras`, which would replace the nightly.
PACKAGES = "keras-nightly jax pytest google-crc32c h5py ml_dtypes numpy protobuf rich"
# What is tried -> the arguments of pytest.
TESTS = {
    "patches": ["tests/package/test_private_keras.py"],
    "policies": ["tests/policies/test_policy.py"],
    "saving": ["tests/policies/test_saving.py"],
    "two legacy models of each format": [
        "tests/legacy/test_models.py",
        "-k",
        "recorded and (2.15.1/seq_dense or 2.15.1/rnn_dynamic)",
    ],
}
SECONDS = 175  # for everything
VERSION = "import keras; print('keras-nightly', keras.__version__)"


def main(folder):
    end = time.monotonic() + SECONDS
    python = pathlib.Path(folder) / "bin" / "python"
    variables = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)}

    def works(*arguments):
        """Return whether a command of the virtualenv's Python ends well, in time."""
        left = max(end - time.monotonic(), 1)
        try:
            subprocess.run(
                [python, *arguments], check=True, cwd=ROOT, env=variables, timeout=left
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(error, flush=True)
            return False
        return True

    venv.create(folder, with_pip=True)
    install = "-m", "pip", "install", "-q", *PACKAGES.split()
    if not works(*install) or not works("-c", VERSION):
        report(["its installation"])
    report([n for n, own in TESTS.items() if not works("-m", "pytest", "-q", *own)])


def report(failed):
    """Print what failed under the nightly Keras, and exit."""
    if failed:
        print("#" * 88)
        print(f"# The nightly Keras FAILS: {', '.join(failed)}. Details are above.")
        print("# A user who upgrades Keras will see this: mend it before its release.")
        print("#" * 88)
    else:
        print(f"The nightly Keras passes: {', '.join(TESTS)}.")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1])
