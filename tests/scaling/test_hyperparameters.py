"""Hyperparameters of the inner optimizer, read and set through the wrapper."""

import keras
import pytest
from keras import ops

from keras_policies import LossScaleOptimizer

# For tests whose gradients are those of no loss.
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")


def tensor(x):
    return ops.convert_to_tensor(x, dtype="float32")


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("beta_1", 0.5, 0.75),
        ("epsilon", 1e-3, 1e-2),
        ("amsgrad", True, False),
        ("weight_decay", 0.125, 0.25),
        ("clipnorm", 2.0, 4.0),
        ("ema_momentum", 0.5, 0.25),
        ("learning_rate", 0.5, 0.25),
    ],
)
def test_a_hyperparameter_is_read_from_and_set_on_the_inner_optimizer(
    name, value, other
):
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(**{name: value}), 8)
    assert hasattr(optimizer, name)
    assert float(getattr(optimizer, name)) == value
    setattr(optimizer, name, other)
    assert float(getattr(optimizer.inner_optimizer, name)) == other
    assert float(getattr(optimizer, name)) == other


@hand_made
@pytest.mark.parametrize(
    ("given", "name", "value", "expected"),
    [
        pytest.param({"momentum": 0.5}, "momentum", 0.0, [3.0, 2.0], id="momentum"),
        pytest.param({"clipnorm": 9.0}, "clipnorm", 0.5, [3.0, 2.5], id="clipnorm"),
    ],
)
def test_a_callback_that_sets_a_hyperparameter_changes_the_next_step(
    given, name, value, expected
):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0, **given), 8)
    variable, seen = keras.Variable([4.0]), []
    for _ in range(2):
        optimizer.apply([tensor([8.0])], [variable])
        setattr(optimizer, name, value)
        seen.append(float(variable.numpy()[0]))
    assert seen == expected


def test_what_is_excluded_from_weight_decay_does_not_decay():
    inner = keras.optimizers.SGD(0.5, weight_decay=0.5)
    optimizer = LossScaleOptimizer(inner, 8)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    variables = [keras.Variable([1.0], name=name) for name in ("kernel", "bias")]
    optimizer.apply([tensor([0.0])] * 2, variables, are_scaled=True)
    assert [v.numpy().tolist() for v in variables] == [[0.75], [1.0]]


def test_a_loss_scale_factor_set_later_is_not_used():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 8)
    variable = keras.Variable([1.0])
    optimizer.loss_scale_factor = 4.0
    with pytest.warns(UserWarning, match="loss_scale_factor=4.0.*loss scale is used"):
        optimizer.apply([optimizer.scale_loss(tensor([1.0]))], [variable])
    assert variable.numpy().tolist() == [0.0]


@pytest.mark.parametrize(
    "options",
    [{"use_ema": True}, {"gradient_accumulation_steps": 2}],
    ids=["ema", "accumulation"],
)
def test_the_wrapper_itself_keeps_no_averages_and_no_accumulators(options):
    inner = keras.optimizers.SGD(1.0, **options)
    optimizer = LossScaleOptimizer(inner, 8)
    optimizer.build([keras.Variable([4.0])])
    (name, value), *_ = options.items()
    assert getattr(optimizer, name) == value
    # Two counters, the loss scale, and a learning rate that Keras gives it.
    assert len(optimizer.variables) - len(inner.variables) == 4


@pytest.mark.parametrize("name", ["beta1", "momentum", "clip_norm"])
def test_a_misspelt_hyperparameter_is_an_error_that_names_the_inner_optimizer(name):
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), 8)
    assert not hasattr(optimizer, name)
    with pytest.raises(AttributeError, match=f"{name}.*nor.*inner optimizer, Adam"):
        getattr(optimizer, name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("learningrate", "learning_rate"),
        ("_learning_rat", None),
        ("loss_scal", "loss_scale"),
        ("skiped_steps", "skipped_steps"),
        ("veloicties", None),  # a private attribute of Adam
    ],
)
def test_a_misspelt_attribute_is_answered_with_a_public_name(name, meant):
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), 8)
    optimizer.build([keras.Variable([1.0])])
    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as error:
        getattr(optimizer, name)
    found = str(error.value).partition("Did you mean ")[2].strip("'?")
    assert found == (meant or "")


def test_a_misspelt_hyperparameter_is_not_set():
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), 8)
    with pytest.raises(AttributeError, match="optimizer, Adam. Did you mean 'beta_1'"):
        optimizer.beta1 = 0.5
    optimizer.label = "an attribute of one's own"
    assert optimizer.label == "an attribute of one's own"
    assert not hasattr(optimizer.inner_optimizer, "label")


def test_a_subclass_has_attributes_of_its_own():
    class Mine(LossScaleOptimizer):
        def __init__(self, inner, clip_norm):
            super().__init__(inner, 8)
            self.clip_norm = clip_norm

    assert Mine(keras.optimizers.SGD(clipnorm=2.0), 0.5).clip_norm == 0.5


def test_an_error_in_a_property_is_seen_as_it_is():
    class Mine(LossScaleOptimizer):
        @property
        def broken(self):
            return self.rule.nothing

    with pytest.raises(AttributeError, match="'nothing'"):
        _ = Mine(keras.optimizers.SGD(), 8).broken


def test_another_inner_optimizer_is_warned_of():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), 8)
    optimizer.inner_optimizer = optimizer.inner_optimizer
    with pytest.warns(UserWarning, match="now another one, of Adam.*compile with"):
        optimizer.inner_optimizer = keras.optimizers.Adam()
