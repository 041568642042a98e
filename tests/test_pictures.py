import sys

import keras
import numpy as np
import pytest
from keras import layers

import keras_policies as mp
from keras_policies import gradients, pictures
from keras_policies.backends import eager

ONE = np.ones((1, 1), "float32")


def one_weight(dtype="float32", value=2.0):
    kernel = keras.initializers.Constant(value)
    dense = layers.Dense(1, use_bias=False, kernel_initializer=kernel, dtype=dtype)
    model = keras.Sequential([keras.Input((1,)), dense], name="small")
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([1.0, 1.99, -2.0], ({0: 2, 1: 1}, 0, 0), id="powers-of-two"),
        pytest.param([0.0, -0.0, 2.0**-24], ({-24: 1}, 2, 0), id="zeros"),
        pytest.param([np.inf, -np.inf, np.nan], ({}, 0, 3), id="non-finite"),
        pytest.param([2.0**-149, 65504.0], ({-149: 1, 15: 1}, 0, 0), id="ends"),
        pytest.param([3e38], ({127: 1}, 0, 0), id="largest"),
        pytest.param([], ({}, 0, 0), id="none"),
    ],
)
def test_magnitudes_are_counted_by_powers_of_two(values, expected):
    found = gradients.magnitudes([np.array(values, "float32")])
    assert found == gradients.Magnitudes(*expected)
    assert found.total == len(values)


def test_gradients_are_those_of_the_loss_times_the_scale():
    model = one_weight()
    for scale in 1.0, 8.0:
        (found,) = gradients.gradients_of(model, ONE, ONE * 0.5, scale)
        assert found.dtype == "float32"
        assert found.tolist() == [[3.0 * scale]]


def test_a_small_float16_gradient_is_zero_until_the_loss_is_scaled():
    # 2 * error * x, with an error of 2**-12 and an x of 2**-14
    model = one_weight("mixed_float16", 1.0)
    x = ONE * 2.0**-14
    y = x - 2.0**-12
    found = [gradients.gradients_of(model, x, y, scale) for scale in (1.0, 2.0**10)]
    assert [float(grads[0].item()) for grads in found] == [0.0, 2.0**-15]


def test_a_scale_that_is_too_high_makes_infinities():
    model = one_weight("mixed_float16")
    (found,) = gradients.gradients_of(model, ONE, ONE, 2.0**16)
    assert found.tolist() == [[np.inf]]


def test_taking_gradients_changes_nothing():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(2),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    x, y = np.ones((4, 4), "float32"), np.ones((4, 2), "float32")
    model.fit(x, y, verbose=0)
    everything = [
        *model.variables,
        *model.optimizer.variables,
        *model.metrics_variables,
    ]
    before = [np.copy(keras.ops.convert_to_numpy(v)) for v in everything]
    first = gradients.gradients_of(model, x, y)
    for variable, value in zip(everything, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), value)
    # The dropout was the same, as no random numbers were used up.
    again = gradients.gradients_of(model, x, y)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    model.fit(x, y, verbose=0)


def test_a_model_that_is_not_built_gets_built():
    model = keras.Sequential([layers.Dense(3), layers.Dense(1)])
    model.compile("sgd", "mse")
    found = gradients.gradients_of(model, np.ones((2, 4)), np.ones((2, 1)))
    assert [g.shape for g in found] == [(4, 3), (3,), (3, 1), (1,)]


def test_structures_sparse_gradients_and_weights_without_any():
    ids, rest = (
        keras.Input((2,), dtype="int32", name="ids"),
        keras.Input((3,), name="x"),
    )
    embedded = layers.Flatten()(layers.Embedding(5, 2, name="table")(ids))
    outputs = {"a": layers.Dense(1)(embedded), "b": layers.Dense(1)(rest)}
    model = keras.Model({"ids": ids, "x": rest}, outputs)
    model.compile("sgd", {"a": "mse", "b": "mse"})
    x = {"ids": np.array([[1, 1]]), "x": np.ones((1, 3))}
    found = gradients.gradients_of(model, x, {"a": ONE, "b": ONE})
    (table,) = [g for g in found if g.shape == (5, 2)]
    assert np.flatnonzero(table.any(axis=1)).tolist() == [1]
    assert len(found) == 5


class HasUnused(keras.Model):
    def __init__(self):
        super().__init__()
        self.used, self.unused = layers.Dense(1), layers.Dense(1)

    def build(self, shape):
        self.used.build(shape)
        self.unused.build(shape)

    def call(self, x):
        return self.used(x)


def test_a_weight_that_the_loss_does_not_depend_on_does_no_harm():
    model = HasUnused()
    model.compile("sgd", "mse")
    found = gradients.gradients_of(model, ONE, ONE * 9)
    # jax knows no other gradient than zero there.
    assert len(found) == (4 if keras.backend.backend() == "jax" else 2)


def test_a_model_without_a_loss_is_refused():
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)], name="bare")
    with pytest.raises(ValueError, match="'bare' is not compiled.*Call model.compile"):
        mp.plot_gradients(model, ONE, ONE)


def test_numpy_is_told_to_take_no_gradients():
    with pytest.raises(NotImplementedError, match="backend takes no gradients. Set"):
        eager.gradients(lambda values: 0, [])


def texts(items):
    return [item.get_text() for item in items]


def test_the_picture_of_gradients_shows_both_losses_over_the_range_of_float16():
    mp.set_policy(mp.Policy("mixed_float16", 2**12))
    figure = mp.plot_gradients(one_weight("mixed_float16"), ONE, ONE * 0.5)
    zero, middle, infinite = figure.axes
    assert figure.get_suptitle() == "Gradients of 'small' on one batch, 1 numbers"
    assert texts(figure.legends[0].get_texts()) == [
        "loss, not scaled: 0 zero, 0 inf or NaN",
        "loss times 4096: 0 zero, 0 inf or NaN",
    ]
    bars = [[(b.get_x(), b.get_height()) for b in c] for c in middle.containers]
    assert bars == [[(1.0, 1)], [(13.5, 1)]]
    assert texts(middle.texts) == ["zero", "subnormal", "normal", "infinite"]
    ends = {"$2^{-24}$": -24, "$2^{-14}$": -14, "$2^{16}$": 16}
    ticks = zip(texts(middle.get_xticklabels()), middle.get_xticks(), strict=True)
    assert ends.items() <= dict(ticks).items()
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert zero.get_ylabel() == "gradients (numbers, log)"
    assert middle.get_xlabel() == "absolute value (log), over what float16 can hold"
    names = texts(zero.get_xticklabels()), texts(infinite.get_xticklabels())
    assert names == (["zero"], ["inf,\nNaN"])


def test_zeros_and_infinities_have_bars_of_their_own():
    mp.set_policy(mp.Policy("mixed_float16", 2**16))
    model = one_weight("mixed_float16")
    figure = mp.plot_gradients(model, ONE, ONE)
    assert figure.legends[0].get_texts()[1].get_text() == (
        "loss times 65536: 0 zero, 1 inf or NaN"
    )
    heights = [
        [c[0].get_height() for c in axes.containers] for axes in figure.axes[::2]
    ]
    assert heights == [[0, 0], [0, 1]]
    figure = mp.plot_gradients(model, ONE * 0, ONE * 0.25)
    heights = [
        [c[0].get_height() for c in axes.containers] for axes in figure.axes[::2]
    ]
    assert heights == [[1, 1], [0, 0]]


def test_without_a_loss_scale_one_loss_is_drawn():
    figure = mp.plot_gradients(one_weight(value=2.0**30), ONE, ONE)
    assert len(figure.axes[1].containers) == 1
    assert len(figure.legends[0].get_texts()) == 1
    assert figure.axes[1].get_xlim() == (-28.0, 32.0)


def test_the_picture_of_a_training_shows_its_loss_scale():
    mp.set_policy(mp.Policy("mixed_float16", mp.DynamicLossScale(64, 1)))
    logger = mp.LossScaleLogger()
    history = one_weight("mixed_float16").fit(
        ONE, ONE, epochs=3, verbose=0, callbacks=[logger]
    )
    figure = mp.plot_loss_scale(history)
    upper, lower = figure.axes
    (line,) = upper.lines
    assert line.get_xydata().tolist() == [[1, 128], [2, 256], [3, 512]]
    assert figure.get_suptitle() == (
        "Loss scale: 128 to 512; epochs: 3; steps skipped: 0"
    )
    assert (upper.get_yscale(), upper.get_ylabel()) == ("log", "loss scale (log)")
    assert (lower.get_xlabel(), lower.get_ylabel()) == ("epoch", "skipped (steps)")
    mp.plot_loss_scale(history.history)


def test_a_training_that_was_continued_is_drawn_where_it_began():
    history = keras.callbacks.History()
    history.epoch = [5, 6]
    history.history = {"loss_scale": [4.0, 2.0], "skipped_steps": [0, 3]}
    upper, lower = mp.plot_loss_scale(history).axes
    assert upper.lines[0].get_xdata().tolist() == [6, 7]
    assert [bar.get_height() for bar in lower.patches] == [0, 3]


@pytest.mark.parametrize(
    ("history", "found"),
    [({"loss": [1.0]}, r"\['loss'\]"), (None, "None"), ({}, r"\[")],
)
def test_a_history_without_a_loss_scale_is_refused(history, found):
    with pytest.raises(ValueError, match=f"it has {found}.*LossScaleLogger"):
        mp.plot_loss_scale(history)


def test_a_figure_draws_itself_and_nobody_else_knows_of_it():
    had_pyplot = "matplotlib.pyplot" in sys.modules
    figure = mp.plot_loss_scale({"loss_scale": [2.0]})
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_missing_matplotlib_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-policies\[plot\]'"):
        pictures.plot_loss_scale({"loss_scale": [2.0]})
