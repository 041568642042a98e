"""What the scripts of this folder share: the training, and the record of it.

Each script trains a case on one device and once more distributed, over the same joined
batches, and prints `{case: {"alone": record, "distributed": record}}` as JSON; a record
has `{name of a variable: its copies, one a replica}` for each step. The last row of one
batch, so the share of one replica alone, overflows.
"""

import json

import keras
import numpy as np

import keras_policies as mp

BATCH, FEATURES, STEPS = 8, 4, 6
# In float16 no loss is infinite there, but the gradients of a scaled one are.
TOO_LARGE = {"mixed_float16": 1000.0, "float32": np.inf}
RULES = {"dynamic": mp.DynamicLossScale(1024, 2), "fixed": mp.FixedLossScale(64)}
# A fixed scale never skips: what overflows last leaves something to compare before.
BAD_STEP = {"dynamic": 3, "fixed": STEPS - 1}
# In float16 first, dynamic scales first.
CASES = [(policy, rule) for policy in TOO_LARGE for rule in RULES]


def batches(policy, rule):
    """Return the inputs and targets of all steps, `(steps, batch, features)`."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS, BATCH, FEATURES)).astype("float32")
    y = x[..., :1] * 2 + 1
    y[BAD_STEP[rule], -1] = TOO_LARGE[policy] if rule == "dynamic" else np.inf
    return x, y


def model_of(policy, rule, **options):
    """Return a compiled model; its policy has the loss scale where it is float16's."""
    scales = policy == "mixed_float16"
    mp.set_policy(mp.Policy(policy, RULES[rule] if scales else None))
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(4, activation="tanh", name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1, name="out")(hidden))
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    # With Adam's own epsilon rounding flips the sign of whole steps.
    optimizer = keras.optimizers.Adam(0.05, epsilon=0.1)
    if not scales:
        optimizer = mp.LossScaleOptimizer(optimizer, RULES[rule])
    model.compile(optimizer, "mse", **options)
    mp.set_policy(None)
    return model


def fit_step(model, x, y):
    """Train one step by `Model.fit`, on a batch that is not split further."""
    options = {"batch_size": len(x), "shuffle": False, "verbose": 0}
    logs = model.fit(x, y, **options, callbacks=[mp.LossScaleLogger()]).history
    assert logs["loss_scale"] == [float(model.optimizer.loss_scale)]


def trained(model, data, copies, step=fit_step):
    """Return the record of training a model on each of the batches.

    Args:
        model: `keras.Model`, compiled.
        data: inputs and targets, as of `batches`.
        copies: callable, returns the values of a variable on all replicas.
        step: callable, trains the model on one batch.
    """
    record = []
    for x, y in zip(*data, strict=True):
        step(model, x, y)
        optimizer = model.optimizer
        named = {
            "loss_scale": optimizer.dynamic_scale,
            "good_steps": optimizer.step_counter,
            "skipped_steps": optimizer._iterations,
            **{f"inner/{v.path}": v for v in optimizer.inner_optimizer.variables[1:]},
            "iterations": optimizer.iterations,
            **{v.path: v for v in model.weights},
        }
        record.append({name: as_lists(copies(v)) for name, v in named.items()})
        assert float(optimizer.loss_scale) == record[-1]["loss_scale"][0]
        assert int(optimizer.skipped_steps) == record[-1]["skipped_steps"][0]
    return record


def one_copy(variable):
    """Return the value of a variable that is on one device."""
    return [keras.ops.convert_to_numpy(variable.value)]


def as_lists(values):
    return [np.asarray(value).tolist() for value in values]


def alone(policy, rule):
    """Return the record of the training on one device."""
    data = batches(policy, rule)
    return trained(model_of(policy, rule), data, one_copy, keras.Model.train_on_batch)


def compare(ways, **more):
    """Train each case alone and in all ways; print what the test reads.

    Args:
        ways: dict, the name of a way of training -> a callable that takes a policy and
            a rule and returns a record, and the cases to try.
        more: callables of no arguments, whose results are printed too.
    """
    results = {}
    for case in CASES:
        cases_ways = {name: way for name, (way, cases) in ways.items() if case in cases}
        recorded = alone(*case) if cases_ways else None
        for name, way in cases_ways.items():
            both = {"alone": recorded, "distributed": way(*case)}
            results[", ".join([name, *case])] = both
    results |= {name: make() for name, make in more.items()}
    print(json.dumps(results), flush=True)
