"""Random training, step for step beside the machine of oracle.py.

`ORACLE_SEQUENCES=10000 pytest tests/scaling/test_oracle.py` draws that many sequences,
of 1 to 12 steps each, instead of the few hundred of every day.
"""

import os

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from keras import ops
from oracle import Machine, Settings

from keras_policies import DynamicLossScale, FixedLossScale, LossScaleOptimizer

# For tests whose gradients are those of no loss.
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")

BACKEND = keras.backend.backend()
LONG = int(os.environ.get("ORACLE_SEQUENCES", 0))
# (steps per execution, jit_compile)
FITS = {
    "jax": [(1, "auto"), (4, "auto")],
    "tensorflow": [(1, False), (1, True), (4, False), (4, True)],
    "torch": [(1, "auto")],
}.get(BACKEND, [(1, False)])
# Examples of each test, in the long form 5, 65 and 30 % of the sequences: what takes
# compiling is tried on ten sequences at once.
EAGER, COMPILED = (LONG // 20, LONG * 65 // 1000) if LONG else (15, 6)
FITTED = LONG * 3 // 100 // len(FITS) if LONG else 3
# Of the largest value that a variable ever had.
TOLERANCE = 1e-4

VALUES = [
    np.array([1.0, -2.0, 3.0], "float32"),
    np.array(0.5, "float32"),
    np.array([[0.25, 4.0], [-1.0, 2.0]], "float32"),
]
# The last gradient overflows of itself, where the scale is large.
DTYPES = ["float32", "float32", "float16"]


def drawn(count):
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=not LONG,
        # What is drawn is small, and making it smaller takes minutes.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )


def dynamic_rules():
    return st.fixed_dictionaries(
        {
            "initial_loss_scale": st.sampled_from([1.0, 3.0, 2.0**10, 2.0**15, 1e20]),
            "increment_period": st.integers(1, 4),
            "multiplier": st.sampled_from([1.0, 1.1, 1.5, 2.0, 3.0, 16.0]),
            "minimum": st.sampled_from([1.0, 2.0**-6, 2.5]),
            "maximum": st.sampled_from([1e20, float(np.finfo("float32").max)]),
        }
    ).filter(lambda drawn: drawn["minimum"] <= drawn["initial_loss_scale"])


def fixed_rules():
    scales = st.sampled_from([1.0, 2.0**7, 1000.0, 2.0**15])
    return st.builds(
        lambda scale: {"initial_loss_scale": scale, "increment_period": None}, scales
    )


def options():
    clipping = st.sampled_from(["clipvalue", "clipnorm", "global_clipnorm"])
    return st.fixed_dictionaries(
        {},
        optional={
            "gradient_accumulation_steps": st.integers(2, 3),
            "weight_decay": st.just(0.05),
            "clip": st.tuples(clipping, st.sampled_from([0.1, 3.0])),
            "ema": st.sampled_from([None, 1, 3]),
        },
    ).map(_as_arguments)


def _as_arguments(drawn):
    arguments = dict(drawn)
    if clip := arguments.pop("clip", None):
        arguments[clip[0]] = clip[1]
    if "ema" in arguments:
        frequency = arguments.pop("ema")
        arguments |= {"use_ema": True, "ema_momentum": 0.75}
        arguments["ema_overwrite_frequency"] = frequency
    return arguments


def optimizers():
    return st.sampled_from(
        [
            ("SGD", {}),
            ("SGD", {"momentum": 0.5}),
            ("SGD", {"momentum": 0.5, "nesterov": True}),
            ("Adam", {"beta_1": 0.5, "beta_2": 0.75}),
        ]
    )


def machines():
    return st.builds(
        lambda rule, **others: Settings(**rule, **others),
        st.one_of(dynamic_rules(), dynamic_rules(), fixed_rules()),
        optimizer=optimizers(),
        options=options(),
        learning_rate=st.sampled_from([0.125, (2, 0.5, 0.03125)]),
    )


def sequences():
    """Draw steps: `(seed, magnitude, None or (which gradient, what is in it))`."""
    bad = st.tuples(st.integers(0, 2), st.sampled_from([np.nan, np.inf, -np.inf, 6e4]))
    magnitude = st.sampled_from([1e-9, 1e-4, 0.03, 1.0, 50.0])
    step = st.tuples(st.integers(0, 99), magnitude, st.none() | st.none() | bad)
    return st.lists(step, min_size=1, max_size=12)


def gradients(seed, magnitude, bad, is_fixed):
    """Return gradients of the unscaled loss; of a fixed scale they are finite."""
    rng = np.random.default_rng(seed)
    found = [np.float32(magnitude * rng.normal(size=value.shape)) for value in VALUES]
    if bad and not is_fixed:
        place, number = bad
        found[place].flat[-1] = number
    return found


def scaled(gradients, scale, is_fixed):
    """Return them times the scale, in the dtypes that a model has."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = [(g * scale).astype(d) for g, d in zip(gradients, DTYPES, strict=True)]
    most = [np.finfo(d).max for d in DTYPES]
    if is_fixed:
        return [np.clip(g, -m, m) for g, m in zip(found, most, strict=True)]
    return found


def made(machine_settings):
    """Return the optimizer that settings describe."""
    name, arguments = machine_settings.optimizer
    rate = machine_settings.learning_rate
    if isinstance(rate, tuple):
        boundary, *rates = rate
        schedules = keras.optimizers.schedules
        rate = schedules.PiecewiseConstantDecay([boundary], rates)
    cls = getattr(keras.optimizers, name)
    inner = cls(rate, **arguments, **machine_settings.options)
    first, period = (
        machine_settings.initial_loss_scale,
        machine_settings.increment_period,
    )
    if period is None:
        return LossScaleOptimizer(inner, FixedLossScale(first))
    multiplier = machine_settings.multiplier
    ends = {"minimum": machine_settings.minimum, "maximum": machine_settings.maximum}
    return LossScaleOptimizer(
        inner, DynamicLossScale(first, period, multiplier, **ends)
    )


class Training:
    """The same as `Machine`, by Keras and this package."""

    def __init__(self, machine_settings, is_compiled):
        self.optimizer = made(machine_settings)
        self.variables = [keras.Variable(value) for value in VALUES]
        self.optimizer.build(self.variables)
        self._first = [v.numpy() for v in self._all()]
        self._apply = self._compiled() if is_compiled else self._eager

    def _all(self):
        return [*self.variables, *self.optimizer.variables]

    def reset(self):
        for variable, value in zip(self._all(), self._first, strict=True):
            variable.assign(value)

    def step(self, scaled):
        self._apply([ops.convert_to_tensor(gradient) for gradient in scaled])

    def _eager(self, gradients):
        self.optimizer.apply(gradients, self.variables)

    def _compiled(self):
        if BACKEND == "tensorflow":
            import tensorflow as tf

            return tf.function(self._eager, autograph=False)
        apply = self.optimizer.stateless_apply
        if BACKEND == "jax":
            import jax

            apply = jax.jit(apply)

        def stateless(gradients):
            state = [[v.value for v in group] for group in self._groups()]
            slots, values = state
            values, slots = apply(slots, gradients, values)
            for group, new in zip(self._groups(), (slots, values), strict=True):
                for variable, value in zip(group, new, strict=True):
                    variable.assign(value)

        return stateless

    def _groups(self):
        return self.optimizer.variables, self.variables


def agree(optimizer, variables, machine, largest):
    """Check the scale and the counts exactly, weights and averages within rounding."""
    assert float(optimizer.loss_scale) == float(machine.scale)
    counts = optimizer.skipped_steps, optimizer.applied_steps
    assert tuple(map(int, counts)) == (machine.skipped, machine.iterations)
    if machine.settings.increment_period is not None:
        assert int(optimizer.step_counter) == machine.good_steps
    averages = [v for v in optimizer.inner_optimizer.variables if "average" in v.path]
    found = [*variables, *averages]
    expected = [*machine.variables, *(machine.averages if averages else [])]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=0, atol=TOLERANCE * largest)


def follow(training, machine, sequence):
    """Train both, step for step."""
    is_fixed = machine.settings.increment_period is None
    largest = 5.0
    for seed, magnitude, bad in sequence:
        wanted = gradients(seed, magnitude, bad, is_fixed)
        given_gradients = scaled(wanted, machine.scale, is_fixed)
        machine.step(given_gradients)
        training.step(given_gradients)
        largest = max(largest, *(np.abs(v).max() for v in machine.variables))
        agree(training.optimizer, training.variables, machine, largest)


@hand_made
@drawn(EAGER)
@given(machines(), sequences())
def test_each_step_is_that_of_the_oracle(machine_settings, sequence):
    training = Training(machine_settings, is_compiled=False)
    follow(training, Machine(machine_settings, VALUES), sequence)


@hand_made
@drawn(COMPILED)
@given(machines(), st.lists(sequences(), min_size=10, max_size=10))
def test_each_compiled_or_stateless_step_is_that_of_the_oracle(machine_settings, many):
    training = Training(machine_settings, is_compiled=True)
    for sequence in many:
        training.reset()
        follow(training, Machine(machine_settings, VALUES), sequence)


class Given(keras.layers.Layer):
    """A layer whose weights have the gradients that stand in its input."""

    def build(self, shape):
        for i, value in enumerate(VALUES):
            first = keras.initializers.Constant(value)
            self.add_weight(shape=value.shape, initializer=first, name=f"w{i}")

    def call(self, inputs):
        weights = ops.concatenate([ops.reshape(w, (-1,)) for w in self.weights])
        return ops.sum(inputs * weights, axis=-1)


def fitted(machine_settings, **compile_options):
    """Return `fit(sequence)`, which trains a model anew, and its optimizer."""
    model = keras.Sequential([keras.Input((len(_row(VALUES)),)), Given()])
    optimizer = made(machine_settings)
    mean = lambda y, outputs: ops.mean(outputs)  # noqa: E731
    model.compile(optimizer, mean, **compile_options)
    optimizer.build(model.trainable_variables)
    state = [*model.trainable_variables, *optimizer.variables]
    first = [v.numpy() for v in state]

    def fit(rows):
        for variable, value in zip(state, first, strict=True):
            variable.assign(value)
        y = np.zeros(len(rows), "float32")
        model.fit(np.stack(rows), y, batch_size=1, shuffle=False, verbose=0)

    return fit, optimizer, model.trainable_variables


def _row(arrays):
    return np.concatenate([np.ravel(array) for array in arrays])


@pytest.mark.filterwarnings("ignore:fit ended with a skipped step")
@pytest.mark.parametrize(("steps_per_execution", "jit_compile"), FITS)
def test_fit_ends_where_the_oracle_does(steps_per_execution, jit_compile):
    compile_options = {
        "steps_per_execution": steps_per_execution,
        "jit_compile": jit_compile,
    }

    @drawn(FITTED)
    @given(machines(), st.lists(sequences(), min_size=10, max_size=10))
    def test(machine_settings, many):
        is_fixed = machine_settings.increment_period is None
        fit, optimizer, variables = fitted(machine_settings, **compile_options)
        for sequence in many:
            steps = [gradients(*step, is_fixed) for step in sequence]
            machine = Machine(machine_settings, VALUES)
            largest = 5.0
            for step in steps:
                with np.errstate(over="ignore"):
                    machine.step([np.float32(g) * machine.scale for g in step])
                largest = max(largest, *(np.abs(v).max() for v in machine.variables))
            fit([_row(step) for step in steps])
            machine.finish()
            agree(optimizer, variables, machine, largest)

    test()
