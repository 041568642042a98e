"""`summary` names the layers that this backend cannot run in their dtypes, no others.

Each layer is run, so the truth is that of the machine that runs the tests.
"""

import keras
import numpy as np
import pytest
from keras import layers

from keras_policies.backends import hardware
from keras_policies.diagnostics.summary import rows_of

BACKEND = keras.backend.backend()
NARROW = ["float16", "bfloat16", "mixed_float16"]


def is_warned(model, words):
    return any(words in risk for row in rows_of(model) for risk in row.risks)


RECURRENT = {
    "cell": (lambda: layers.RNN(layers.GRUCell(3)), (5, 2)),
    "rnn": (lambda: layers.SimpleRNN(3), (5, 2)),
    "lstm-in-a-wrapper": (lambda: layers.Bidirectional(layers.LSTM(3)), (5, 2)),
    "convolutional": (lambda: layers.ConvLSTM1D(2, 2), (3, 5, 2)),
    "dense": (lambda: layers.Dense(3, kernel_initializer="orthogonal"), (4,)),
    "other-weights": (lambda: layers.Dense(3), (4,)),
    "other-rnn": (lambda: layers.GRU(3, recurrent_initializer="zeros"), (5, 2)),
}


@pytest.mark.parametrize("policy", NARROW)
@pytest.mark.parametrize("name", RECURRENT)
def test_orthogonal_weights_that_cannot_be_created_are_named_before(name, policy):
    make, shape = RECURRENT[name]
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential([make()])
    warned = is_warned(model, f"orthogonal {policy} weights here; use 'mixed_{policy}'")
    try:
        model(np.ones((4, *shape)))
        fails = False
    except Exception:
        fails = True
    assert warned == fails
    if not fails:
        assert not is_warned(model, "orthogonal")


ATTENTION = {
    "heads": (lambda: layers.MultiHeadAttention(2, 4), (5, 8)),
    "heads-dropout": (lambda: layers.MultiHeadAttention(2, 4, dropout=0.1), (5, 8)),
    "heads-of-images": (lambda: layers.MultiHeadAttention(2, 4), (3, 5, 8)),
    "groups": (lambda: layers.GroupQueryAttention(4, 2, 1), (5, 8)),
    "groups-dropout": (lambda: layers.GroupQueryAttention(4, 2, 1, 0.1), (5, 8)),
}


@pytest.mark.parametrize("policy", NARROW)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_that_cannot_be_computed_is_named_before(name, policy):
    make, shape = ATTENTION[name]
    keras.config.set_dtype_policy(policy)
    inputs = keras.Input(shape)
    model = keras.Model(inputs, make()(inputs, inputs))
    warned = is_warned(model, "attention in float16 here; use bfloat16 or float32")
    try:
        model.predict_on_batch(np.ones((4, *shape)))
        fails = False
    except Exception:
        fails = True
    assert warned == fails


def test_the_backend_is_asked_once(monkeypatch):
    asked = []
    for problem in hardware.attention_problem, hardware.wrong_products:
        problem.cache_clear()
    monkeypatch.setattr(hardware, "_fails", lambda compute: asked.append(1))
    for _ in range(3):
        assert hardware.attention_problem() == ""
    assert asked == [1]
    hardware.attention_problem.cache_clear()


def test_what_fails_is_said_with_its_remedy(monkeypatch):
    monkeypatch.setattr(hardware, "_fails", lambda compute: True)
    problems = (
        hardware.attention_problem.__wrapped__(),
        hardware.orthogonal_problem.__wrapped__("bfloat16"),
    )
    assert problems == (
        f"{BACKEND} cannot compute attention in float16 here; use bfloat16 or float32",
        f"{BACKEND} cannot create orthogonal bfloat16 weights here; "
        "use 'mixed_bfloat16'",
    )
