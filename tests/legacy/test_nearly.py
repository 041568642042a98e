"""Layers that nearly are stock layers do not become them: see nearly_table.py."""

import functools
import warnings

import keras
import legacy_files
import lost_files
import mutations
import numpy as np
import pytest

from keras_policies import LegacyModelError, keras_internals, load_model
from keras_policies.backends.running import backend
from keras_policies.legacy.plan import replicas
from keras_policies.legacy.plan.reconstruction import proofs

TABLES = ("-nearly",)
RELEASES = [
    release
    for release in ("2.15.1", "2.4.4")
    if legacy_files.IS_THOROUGH or release == legacy_files.NEWEST
]
# Loops of any length that are no stock layer.
REFUSED = "lstm_clip_any", "rnn_of_at_most_6_any"
# What `*_stock` becomes, with settings.
STOCK = {
    "lstm_stock": ("LSTM", {"activation": "tanh", "recurrent_activation": "sigmoid"}),
    "rnn_relu_stock": ("SimpleRNN", {"activation": "relu"}),
    "rnn_hard_sigmoid_stock": ("SimpleRNN", {"units": 3}),
    "norm_momentum_stock": ("BatchNormalization", {"momentum": 0.99999}),
    "norm_digits_stock": (
        "BatchNormalization",
        {"momentum": 0.98765, "epsilon": 0.0012345},
    ),
    "norm_of_images_stock": ("BatchNormalization", {"momentum": 0.9, "epsilon": 1e-5}),
    "rows_stock": ("Dense", {"units": 5}),
}
RECURRENT = {"GRU", "LSTM", "SimpleRNN"}
# Those that train with another gradient, which is said; before 2.6, no file has any.
TOLD = {"gradient_by_its_norm"}
TOLD_WITHOUT_RECORD = {
    *TOLD,
    *("gradient_of_rounding", "gradient_of_signs", "gradient_turned_around"),
}
# Without a record of its gradient, nothing tells it from `tf.nn.swish`.
LIKE_SWISH = "2.4.4/gradient_of_a_gate"


def named(*endings, without=()):
    """Return the cases of each release whose names end so."""
    return [
        f"{release}/{name}"
        for release in RELEASES
        for name in lost_files.names(release, tables=TABLES)
        if name.endswith(endings or "") and not {name, f"{release}/{name}"} & {*without}
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [path for name in RELEASES for path in lost_files.archives(name, TABLES)]
    return legacy_files.unpacked(tmp_path_factory.mktemp("nearly"), archives)


@functools.cache
def opened(folder, name):
    """Return a case, its model, and what the warnings say."""
    case = lost_files.of(folder, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(case.model, verify=True)
    return case, model, " ".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", named(without=REFUSED))
def test_it_predicts_what_tensorflow_did_at_two_batch_sizes(folder, name):
    case, model, _ = opened(folder, name)
    for x, expected in case.batches():
        found = legacy_files.called(model, x)
        for one, other in zip(found, expected, strict=True):
            size = max(float(np.max(np.abs(other))), 1)
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * size)


@pytest.mark.parametrize("name", named(*REFUSED))
def test_a_loop_that_nearly_is_a_layer_is_refused_over_any_length(folder, name):
    case = lost_files.of(folder, name)
    with pytest.raises(LegacyModelError, match="not the loop of an LSTM, GRU or Simp"):
        load_model(case.model)


@pytest.mark.parametrize("name", named(*STOCK))
def test_what_is_the_formula_of_a_stock_layer_becomes_it(folder, name):
    _, model, _ = opened(folder, name)
    class_name, settings = STOCK[name.rpartition("/")[2]]
    layers = [
        layer.get_config()
        for layer in keras_internals.sublayers(model)
        if type(layer).__name__ == class_name
    ]
    assert any(settings.items() <= config.items() for config in layers)


@pytest.mark.parametrize("name", named(without=(*REFUSED, *STOCK)))
def test_what_nearly_is_a_recurrent_layer_or_a_normalization_is_none(folder, name):
    _, model, _ = opened(folder, name)
    kinds = {type(layer).__name__ for layer in keras_internals.sublayers(model)}
    assert kinds.isdisjoint({*RECURRENT, "BatchNormalization"})


@pytest.mark.parametrize("name", named("regularizer_digits_stock"))
def test_factors_of_a_regularizer_are_those_of_the_file(folder, name):
    _, model, _ = opened(folder, name)
    regularizers = [w.regularizer for w in model.trainable_variables if w.regularizer]
    (config,) = (regularizer.get_config() for regularizer in regularizers)
    # The factors that a float32 holds, to all digits.
    assert config == {"l1": pytest.approx(1e-6), "l2": pytest.approx(0.0123456)}


def is_told(name):
    release, _, case = name.partition("/")
    return case in (TOLD_WITHOUT_RECORD if release == "2.4.4" else TOLD)


@pytest.mark.parametrize("name", named(without=(*REFUSED, LIKE_SWISH)))
def test_a_step_moves_each_weight_as_tensorflow_did(folder, name):
    case, model, said = opened(folder, name)
    assert ("train with the gradient of their formula" in said) == is_told(name)
    if is_told(name):
        return
    x, (target,) = case.inputs(), case.arrays("t_")
    before, after = case.arrays("w_"), case.arrays("a_")
    variables, others = model.trainable_variables, model.non_trainable_variables
    target = keras.ops.convert_to_tensor(target)

    def loss(values):
        y, _, losses = model.stateless_call(
            values, [v.value for v in others], x, training=True, return_losses=True
        )
        return keras.ops.mean(keras.ops.square(y - target)) + sum(losses)

    if "/norm_" in name and not name.endswith("stock"):
        names = "norm/moving_mean, norm/moving_variance"
        assert (
            f"'norm' (it assigned {names}, which only an optimizer changes now)" in said
        )
        return
    gradients = backend.gradients(loss, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        own = variable.numpy().ravel()
        number, sign = next(
            (i, sign)
            for i, w in enumerate(before)
            for sign in (1, -1)
            if np.array_equal(sign * w.ravel(), own)
        )
        moved = sign * (after[number] - before[number]).ravel()
        size = max(float(np.max(np.abs(moved))), 1e-3)
        found = -0.1 * np.ravel(gradient)
        np.testing.assert_allclose(found, moved, rtol=0, atol=1e-3 * size)


MUTANTS = [
    pytest.param(case, *site, id=f"{case}-{site[0]}-{site[2]}")
    for case, sites in {
        "lstm_stock": [
            *(("mul_2", "Mul"), ("add_2", "AddV2")),
            *(("Tanh", "Tanh"), ("Tanh_1", "Tanh")),
        ],
        "norm_digits_stock": [("truediv", "RealDiv"), ("Sqrt", "Sqrt")],
        "regularizer_digits_stock": [("Square", "Square")],
    }.items()
    for key, op in sites
    for site in [
        (key, op, kind, bound)
        for kind, bound in zip(mutations.KINDS, (4.0, 20.0, 4.0, 0, 0, 0), strict=True)
    ]
]


@pytest.mark.slow("each opens a changed model", one_of=6)
@pytest.mark.parametrize(("case", "key", "op", "kind", "bound"), MUTANTS)
def test_a_changed_layer_is_what_its_graph_is(
    folder, tmp_path, case, key, op, kind, bound
):
    path = tmp_path / "model"
    mutations.copied(folder / legacy_files.NEWEST / case / "model", path)
    mutations.mutate(path, key, op, kind, bound)
    found, said = mutations.outcome(path)
    assert found != "wrong", said


@pytest.mark.once("the reference is computed with NumPy")
def test_a_limit_that_no_input_of_the_model_reaches_is_kept(folder, tmp_path):
    path, case = tmp_path / "model", "rnn_hard_sigmoid_stock"
    mutations.copied(folder / legacy_files.NEWEST / case / "model", path)
    mutations.mutate(path, "BiasAdd", "BiasAdd", "clip", 20.0)
    with pytest.warns(UserWarning, match="Dense"):
        model = load_model(path)
    (kernel,) = (w for w in model.trainable_variables if w.shape == (3, 2))
    kernel.assign(np.full((3, 2), 1000.0))
    (found,) = legacy_files.called(model, np.ones((1, 4, 4), "float32"))
    assert found.tolist() == [[20.0, 20.0]]


def test_what_stands_for_an_op_that_bends_is_another_for_other_limits():
    x = np.linspace(-1, 1, 5)
    assert np.array_equal(proofs.clip(0, 6)(x), proofs.clip(0.0, 6.0)(x))
    assert not proofs.is_close(proofs.clip(0, 6)(x), proofs.clip(0, 6.001)(x))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(0.9900000002, 0.99, id="momentum"),
        pytest.param(np.float32(1e-3), 0.001, id="epsilon"),
        pytest.param(0.99999, 0.99999, id="five-digits"),
    ],
)
def test_a_number_is_the_shortest_decimal_of_its_float32(number, expected):
    assert proofs.decimal(float(number)) == expected


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        pytest.param("BatchNormalization", True, id="has-statistics"),
        pytest.param("LayerNormalization", False, id="has-none"),
    ],
)
def test_a_normalization_inside_of_a_part_of_the_batch_is_noticed(class_name, expected):
    layer = {"class_name": class_name, "config": {"name": "norm"}}
    inner = {"class_name": "Sequential", "config": {"name": "a", "layers": [layer]}}
    assert replicas.takes_statistics({"layers": [inner]}) == expected
