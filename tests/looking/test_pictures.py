import sys

import keras
import matplotlib.colors
import numpy as np
import pytest
from keras import layers

import keras_policies as mp
from keras_policies.backends.protocol import Backend
from keras_policies.diagnostics import gradients, plots

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
    assert [float(np.abs(g).max()) > 0 for g in found] == [True, True, False, False]


def test_a_model_without_a_loss_is_refused():
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)], name="bare")
    with pytest.raises(ValueError, match="'bare' is not compiled.*Call model.compile"):
        mp.plot_gradients(model, ONE, ONE)


TWO = np.ones((2, 1), "float32")
NO_BATCH = {
    "sizes": (TWO, ONE, "as many samples in x as in y, but got 2 in x, 1 in y. Pass"),
    "sizes in structures": (
        {"a": ONE, "b": [TWO, ONE]},
        ONE,
        r"got 1 in x\['a'\], 2 in x\['b'\]\[0\], 1 in x\['b'\]\[1\], 1 in y",
    ),
    "no targets": (ONE, None, "y is None.*take one: x, y = next"),
    "no inputs": (None, ONE, "x is None"),
    "empty": (ONE[:0], ONE[:0], "batch is empty: 0 in x, 0 in y. Pass arrays"),
    "no arrays": ([], [], "batch is empty: no arrays"),
    "iterator": (
        iter([ONE]),
        ONE,
        "x is not an array but of type list_iterator. Pass.*next",
    ),
    "numbers": ([[1.0]], ONE, r"x\[0\]\[0\] is not an array but of type float"),
    "scalar": (ONE, np.array(1.0), "y is a single number, of type ndarray"),
}


def test_targets_that_were_forgotten_are_asked_for():
    with pytest.raises(ValueError, match="y is None, but the loss.*take one: x, y ="):
        mp.plot_gradients(one_weight(), iter([ONE]))


@pytest.mark.parametrize("name", NO_BATCH)
def test_what_is_not_one_batch_of_arrays_is_refused(name):
    x, y, match = NO_BATCH[name]
    with pytest.raises(ValueError, match=match):
        mp.plot_gradients(one_weight(), x, y)


def test_a_model_with_nothing_trainable_is_refused():
    model = one_weight()
    model.trainable = False
    with pytest.raises(ValueError, match="'small' has no trainable weights.*Add a"):
        mp.plot_gradients(model, ONE, ONE)


class AddsItsLoss(layers.Layer):
    def call(self, x):
        self.add_loss(keras.ops.mean(x))
        return x


def test_a_model_with_a_loss_of_its_own_needs_no_targets():
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1), AddsItsLoss()])
    model.compile("sgd")
    kernel, bias = gradients.gradients_of(model, ONE * 3, None)
    assert (kernel.tolist(), bias.tolist()) == ([[3.0]], [1.0])


def test_an_output_without_a_loss_has_no_target():
    inputs = keras.Input((1,))
    model = keras.Model(inputs, [layers.Dense(1)(inputs), layers.Dense(1)(inputs)])
    model.compile("sgd", ["mse", None])
    assert mp.plot_gradients(model, ONE, [ONE, None])


def test_numpy_is_told_to_take_no_gradients():
    with pytest.raises(NotImplementedError, match="backend takes no gradients. Set"):
        Backend().gradients(lambda values: 0, [])


def patches(figure):
    return figure.legends[0].get_patches()


def texts(items):
    return [item.get_text() for item in items]


def test_the_picture_of_gradients_shows_both_losses_over_the_range_of_float16():
    mp.set_policy(mp.Policy("mixed_float16", 2**12))
    figure = mp.plot_gradients(one_weight("mixed_float16"), ONE, ONE * 0.5)
    assert [(p.get_hatch(), p.get_facecolor()[:3]) for p in patches(figure)] == [
        ("////", matplotlib.colors.to_rgb(plots.LIGHT)),
        (None, matplotlib.colors.to_rgb(plots.DARK)),
    ]
    zero, middle, infinite = figure.axes
    assert figure.get_suptitle() == "Gradients of 'small' on one batch, 1 numbers"
    assert texts(figure.legends[0].get_texts()) == [
        "loss without a loss scale: 0 zero, 0 inf or NaN",
        "loss times 4096: 0 zero, 0 inf or NaN",
    ]
    bars = [[(b.get_x(), b.get_height()) for b in c] for c in middle.containers]
    assert bars == [[(1.0, 1)], [(13.5, 1)]]
    assert texts(middle.texts) == [
        "zero in\nfloat16",
        "sub-\nnormal",
        "normal",
        "infinite in\nfloat16",
    ]
    ends = {"$2^{-24}$": -24, "$2^{-14}$": -14, "$2^{16}$": 16}
    ticks = zip(texts(middle.get_xticklabels()), middle.get_xticks(), strict=True)
    assert ends.items() <= dict(ticks).items()
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert zero.get_ylabel() == "number of gradients (log scale)"
    assert (
        middle.get_xlabel() == "absolute value (log scale), over the range of float16"
    )
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
    assert figure.legends[0].get_texts()[0].get_text() == (
        "loss without a loss scale: 1 zero (1 even when scaled), 0 inf or NaN"
    )
    # No bars in the middle, and the legend has their colours all the same.
    assert [p.get_hatch() for p in patches(figure)] == ["////", None]
    assert patches(figure)[1].get_alpha() == 0.85


def test_zeros_of_underflow_are_told_from_those_that_a_scale_does_not_help():
    mp.set_policy("mixed_float16")
    kernel = keras.initializers.Constant(1.0)
    dense = layers.Dense(1, use_bias=False, kernel_initializer=kernel)
    model = keras.Sequential([keras.Input((2,)), dense])
    model.compile("sgd", "mse")
    # One input is zero, of the other the gradient is too small for float16.
    x = np.array([[2.0**-14, 0.0]])
    figure = mp.plot_gradients(model, x, x[:, :1] - 2.0**-12, loss_scale=2**10)
    assert texts(figure.legends[0].get_texts()) == [
        "loss without a loss scale: 2 zero (1 even when scaled), 0 inf or NaN",
        "loss times 1024: 1 zero, 0 inf or NaN",
    ]


@pytest.mark.parametrize("value", [0, -1.0, True, "dynamic", np.inf, np.nan, 1e39])
def test_a_loss_scale_to_draw_is_a_positive_number(value):
    with pytest.raises(ValueError, match="must be a number, positive and finite.*None"):
        mp.plot_gradients(one_weight(), ONE, ONE, value)


def test_weights_that_are_not_finite_are_told_in_the_title():
    model = one_weight(value=np.nan)
    figure = mp.plot_gradients(model, ONE, ONE)
    first, second = figure.get_suptitle().splitlines()
    assert first.endswith("1 numbers")
    assert second == "1 of 1 weights hold inf or NaN"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        pytest.param(-29, 21, [-24, -14, -7, 0, 8, 16], id="default"),
        pytest.param(
            -126, 32, [-126, -100, -70, -48, -34, -24, -14, 0, 16, 32], id="wide"
        ),
    ],
)
def test_ticks_are_apart(low, high, expected):
    assert plots.ticks(low, high) == expected


def test_without_a_loss_scale_one_loss_is_drawn():
    figure = mp.plot_gradients(one_weight(value=2.0**30), ONE, ONE)
    assert len(figure.axes[1].containers) == 1
    assert len(figure.legends[0].get_texts()) == 1
    assert figure.axes[1].get_xlim() == (-29.0, 32.0)


def test_the_picture_of_a_training_shows_its_loss_scale():
    mp.set_policy(mp.Policy("mixed_float16", mp.DynamicLossScale(64, 1)))
    logger = mp.LossScaleLogger()
    history = one_weight("mixed_float16").fit(
        ONE, ONE, epochs=3, verbose=0, callbacks=[logger]
    )
    figure = mp.plot_loss_scale(history)
    upper, lower = figure.axes
    (line,) = upper.lines
    assert line.get_xydata().tolist() == [[0, 64], [1, 128], [2, 256], [3, 512]]
    assert figure.get_suptitle() == (
        "Loss scale after each epoch: 64 to 512; epochs: 3; steps skipped: 0"
    )
    assert (upper.get_yscale(), upper.get_ylabel()) == ("log", "loss scale (log scale)")
    assert (lower.get_xlabel(), lower.get_ylabel()) == ("epoch", "skipped steps")
    upper, _ = mp.plot_loss_scale(history.history).axes
    assert upper.lines[0].get_xdata().tolist() == [1, 2, 3]  # it has no start
    assert upper.get_legend() is None


def test_an_epoch_whose_loss_is_not_finite_is_marked():
    mp.set_policy(mp.Policy("mixed_float16", 2.0**20))
    model = one_weight("mixed_float16")
    with pytest.warns(UserWarning, match="never skips a step"):
        history = model.fit(
            ONE, ONE, epochs=3, verbose=0, callbacks=[mp.LossScaleLogger()]
        )
    upper, _ = mp.plot_loss_scale(history).axes
    (crosses,) = upper.collections
    assert crosses.get_offsets().tolist() == [[2, 2.0**20], [3, 2.0**20]]
    label = "the loss of the epoch is NaN or infinite"
    assert texts(upper.get_legend().get_texts()) == [label]


def test_the_scale_of_each_step_is_drawn_if_it_was_kept():
    mp.set_policy(mp.Policy("mixed_float16", mp.DynamicLossScale(2.0**17, 2)))
    logger = mp.LossScaleLogger(every_step=True)
    x, y = np.ones((6, 1), "float32"), np.ones((6, 1), "float32")
    history = one_weight("mixed_float16").fit(
        x[:3], y[:3], batch_size=1, epochs=2, verbose=0, callbacks=[logger]
    )
    upper, lower = mp.plot_loss_scale(history, by_step=True).axes
    scales = [2.0**n for n in (17, 16, 15, 14, 14, 15, 15)]
    assert upper.lines[0].get_ydata().tolist() == scales
    assert [bar.get_height() for bar in lower.patches] == [1, 1, 1, 0, 0, 0]
    assert lower.get_xlabel() == "step"
    again = one_weight("mixed_float16").fit(
        x, y, verbose=0, callbacks=[mp.LossScaleLogger()]
    )
    with pytest.raises(ValueError, match="of each step.*LossScaleLogger.every_step=T"):
        mp.plot_loss_scale(again, by_step=True)


def test_gradients_are_drawn_by_layer():
    kernel = keras.initializers.Constant
    parts = [
        layers.Dense(2, use_bias=False, kernel_initializer=kernel(1.0), name="low"),
        layers.Dense(1, kernel_initializer=kernel(8.0), name="high"),
    ]
    model = keras.Sequential([keras.Input((1,)), *parts])
    model.compile("sgd", "mse")
    figure = mp.plot_gradients(model, ONE, ONE * 0, by_layer=True)
    zero, middle, _ = figure.axes
    assert texts(zero.get_yticklabels()) == ["high", "low"]  # from below
    # The error is 16: 2 * 16 * 8 in "low"; 2 * 16 for the kernel and bias of "high".
    bars = [
        [(b.get_x(), b.get_y(), b.get_height()) for b in c] for c in middle.containers
    ]
    np.testing.assert_allclose(bars, [[(5, 0, 0.85)], [(8, 1, 0.85)]])
    assert (
        middle.get_xlabel() == "absolute value (log scale), loss without a loss scale"
    )
    figure = mp.plot_gradients(model, ONE, ONE * 0, loss_scale=4, by_layer=True)
    assert figure.axes[1].containers[1][0].get_x() == 10.0
    assert figure.axes[1].get_xlabel().endswith("loss times 4")


def test_a_large_scale_is_told_as_a_power_of_two():
    figure = mp.plot_loss_scale({"loss_scale": [2.0**44, 3.0 * 2**20]})
    title = "Loss scale after each epoch: $2^{44}$ to 3.14573e+06; epochs: 2"
    assert figure.get_suptitle().startswith(title)
    mp.set_policy(mp.Policy("mixed_float16", 2.0**30))
    figure = mp.plot_gradients(one_weight("mixed_float16"), ONE, ONE * 0.5)
    second = figure.legends[0].get_texts()[1].get_text()
    assert second.startswith("loss times $2^{30}$: 0 zero")


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


def test_a_model_is_no_history():
    with pytest.raises(
        TypeError, match="keras.callbacks.History of a fit.*After fit.*model.history"
    ):
        mp.plot_loss_scale(one_weight())


def test_a_figure_draws_itself_and_nobody_else_knows_of_it():
    had_pyplot = "matplotlib.pyplot" in sys.modules
    figure = mp.plot_loss_scale({"loss_scale": [2.0]})
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_missing_matplotlib_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="Run pip install matplotlib"):
        mp.plot_loss_scale({"loss_scale": [2.0]})
