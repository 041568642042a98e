"""Lets programs in `tools/` import the helpers of the tests."""

import pathlib
import sys

HELPERS = pathlib.Path(__file__).parents[1] / "tests" / "helpers"
sys.path.append(str(HELPERS))
