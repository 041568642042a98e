"""The command `keras-policies`, also as `python -m keras_policies_cli`.

`import keras_policies` makes Keras obey the package, so it imports Keras, which takes
seconds and needs a backend. A command that only describes files needs neither. So here
the package is created, and its `__init__` runs when a command builds a model.
"""

import importlib.util
import sys


def create_package() -> None:
    """Let the modules of the package be imported without running its `__init__`."""
    spec = importlib.util.find_spec("keras_policies")
    if spec is not None and "keras_policies" not in sys.modules:
        sys.modules["keras_policies"] = importlib.util.module_from_spec(spec)


def main() -> int:
    """Run the command line of the process; return the exit code."""
    create_package()
    from keras_policies.cli import main

    return main.main()


if __name__ == "__main__":
    sys.exit(main())
