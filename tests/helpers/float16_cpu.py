"""Turns oneDNN off where TensorFlow computes products of float16 wrongly on this CPU.

Otherwise tests of legacy float16 models would fail there through no fault of ours. The
products are computed in a process of their own, as oneDNN cannot be turned off once it
is loaded. The processes of pytest-xdist inherit the variable.
"""

import os
import subprocess
import sys

WRONG = "KERAS_POLICIES_WRONG_FLOAT16"  # names of products, separated by spaces
PROBE = (
    "from keras_policies.backends.hardware import wrong_products\n"
    "print(*wrong_products())"
)

if os.environ["KERAS_BACKEND"] == "tensorflow":
    if WRONG not in os.environ:
        done = subprocess.run(
            [sys.executable, "-c", PROBE], stdout=subprocess.PIPE, text=True, check=True
        )
        os.environ[WRONG] = done.stdout.strip()
    if os.environ[WRONG]:
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"


def report():
    """Return the line that pytest prints at its start, or None."""
    wrong = os.environ.get(WRONG)
    if not wrong:
        return None
    return (
        f"TensorFlow computes {wrong} of float16 wrongly on this CPU, so the suite "
        "runs with TF_ENABLE_ONEDNN_OPTS=0"
    )
