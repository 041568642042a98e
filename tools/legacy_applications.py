"""Compare models of keras.applications with the outputs that TensorFlow recorded.

    python tools/legacy_applications.py OUTDIR

Prints a line for each file that write_applications.py wrote to OUTDIR.
"""

import pathlib
import sys

import _helpers  # noqa: F401 - finds them
from applications import error
from legacy_files import FORMS

import keras_policies


def main(outdir):
    """Print the error and the limit of each file."""
    for case in sorted(pathlib.Path(outdir).glob("*/*")):
        for path in (case / form for form in FORMS):
            if path.exists():
                name = "/".join(path.parts[-3:])
                try:
                    found, limit = error(path)
                except keras_policies.LegacyModelError as refused:
                    print(f"{name}: refused: {refused}", flush=True)
                    continue
                verdict = "ok" if found <= limit else "DIFFERS"
                print(f"{name}: {verdict}: {found:.1e} <= {limit:.1e}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
