"""Models of keras.applications, and heads on top of them, predict as they did.

Written by write_applications.py, with weights that compress well. The others are
checked by `python tools/legacy_applications.py OUTDIR`.
"""

import pathlib

import applications
import legacy_files
import pytest

ARCHIVE = pathlib.Path(__file__).parents[1] / "data/legacy/applications.tar.xz"
CASES = (
    "2.4.4/mobilenet_v3_small-mixed_float16/model.h5",
    "2.4.4/transfer_mobilenet_v2-mixed_float16/saved_model",
    "2.15.1/densenet121-float32/model.h5",
    "2.15.1/mobilenet-float32/model.keras",
    "2.15.1/transfer_efficientnet_b0-mixed_float16/saved_model",
)
SMALLEST = "2.15.1/mobilenet-float32/model.keras"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("applications"), [ARCHIVE])


@pytest.mark.filterwarnings("ignore:.*it trains differently")  # predictions alone
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow("up to 430 layers", one_of=2))
        if case != SMALLEST
        else case
        for case in CASES
    ],
)
def test_an_application_predicts_what_was_recorded(case, folder):
    found, limit = applications.error(folder / case)
    assert found <= limit
