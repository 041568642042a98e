"""Every public name in use, for a strict type checker; it is never run.

`all_backends.py` gives it to `mypy --strict`, which refuses a call of what has no
types, and an `assert_type` of what has others.
"""

from typing import Any

import keras
import numpy as np
from matplotlib.figure import Figure
from typing_extensions import assert_type

import keras_policies as mp


class Halving(mp.LossScale):
    """A rule of a user's own."""

    initial_loss_scale = 1024.0

    def after_step(self, scale: Any, good_steps: Any, finite: Any) -> tuple[Any, Any]:
        return keras.ops.where(finite, scale, scale / 2), good_steps + 1

    def get_config(self) -> dict[str, Any]:
        return {}


def policies() -> None:
    policy = mp.Policy("mixed_float16", loss_scale=128)
    assert_type(policy.name, str)
    assert_type(policy.compute_dtype, str | None)
    assert_type(policy.variable_dtype, str | None)
    assert_type(policy.should_cast_variables, bool)
    assert_type(policy.loss_scale, mp.LossScale | None)
    assert_type(policy.is_deferred, bool)
    assert_type(policy.resolve("float16"), mp.Policy)
    assert_type(policy.get_config(), dict[str, Any])
    assert_type(hash(policy), int)
    mp.set_policy(policy)
    mp.set_policy("float32")
    mp.set_global_policy("float32")
    mp.set_policy(None)
    mp.global_policy()
    mp.experimental.set_policy(mp.experimental.Policy("mixed_float16", 128))
    mp.experimental.get_layer_policy(keras.layers.Dense(1))
    with mp.policy_scope("mixed_bfloat16"):
        pass


def loss_scales() -> None:
    dynamic = mp.DynamicLossScale(2**15, increment_period=10, multiplier=4, minimum=2)
    assert_type(dynamic.increment_period, int)
    assert_type(dynamic.after_step(8.0, 0, True), tuple[Any, Any])
    assert_type(mp.FixedLossScale(128).loss_scale_value, float)
    assert_type(mp.FixedLossScale(128).initial_loss_scale, float)
    assert_type(mp.DynamicLossScale.from_config({}), mp.DynamicLossScale)
    assert_type(Halving().skips_nonfinite, bool)
    for scale in None, "dynamic", 128, 2.5, Halving(), Halving().get_config():
        mp.Policy("mixed_float16", scale)


def optimizers(loss: Any, variables: list[Any]) -> None:
    optimizer = mp.LossScaleOptimizer(keras.optimizers.SGD(0.5), Halving(), name="o")
    former = mp.experimental.LossScaleOptimizer(keras.optimizers.SGD(), True, 2)
    assert_type(former.rule, mp.LossScale)
    assert_type(optimizer.dynamic, bool)
    assert_type(optimizer.rule, mp.LossScale)
    optimizer.build(variables)
    optimizer.scale_loss(loss)
    gradients = optimizer.get_unscaled_gradients([optimizer.get_scaled_loss(loss)])
    assert_type(gradients, list[Any])
    optimizer.apply(gradients, variables)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    optimizer.stateless_apply(variables, gradients, variables)
    _ = optimizer.loss_scale, optimizer.iterations
    _ = optimizer.skipped_steps, optimizer.applied_steps
    assert_type(optimizer.get_config(), dict[str, Any])
    mp.LossScaleOptimizer.from_config(optimizer.get_config())


def people(model: Any, x: np.ndarray[Any, Any]) -> None:
    history = model.fit(x, x, callbacks=[mp.LossScaleLogger()])
    assert_type(mp.plot_loss_scale(history), Figure)
    assert_type(mp.plot_gradients(model, x, x), Figure)
    assert_type(mp.plot_gradients(model, x, x, loss_scale=2**15), Figure)
    mp.plot_gradients(model, x, loss_scale=128)
    mp.summary(model)
    assert_type([patch.place for patch in mp.patches()], list[str])
    mp.summary(model, print_fn=print)
    assert_type(mp.to_source(model, constants="model.npz", train=True), str)


def legacy_models() -> None:
    model = mp.load_model("model_of_2020", {"Own": keras.layers.Layer}, compile=False)
    mp.load_model("model_of_2020", safe_mode=False, dtype_policy="float32")
    mp.load_weights(model, "weights_of_2020.h5")
    texts = mp.text_inputs(mp.load_model("texts_of_2023.keras", texts="outside"))
    assert_type(mp.TextInputs.from_json(texts.to_json()), mp.TextInputs)
    found = mp.inspect_model("model_of_2020")
    assert_type(found, mp.ModelDescription)
    assert_type(found.layers, tuple[mp.LayerDescription, ...])
    assert_type(found.written_by, str)
    assert_type(found.policy, str | None)
    assert_type(found.layers[0].parameters, int)
    assert_type(found.as_dict(), dict[str, Any])
    converted = mp.convert_model("model_of_2020", "new.keras", verify="recorded.npz")
    assert_type(converted, mp.Converted)
    mp.convert_model("model_of_2020", "new.keras", lost="refuse", signature="serve")
    assert_type(converted.destination, str)
    assert_type(converted.largest_difference, float | None)
    assert_type(converted.left_out, tuple[mp.LeftOut, ...])
    assert_type(converted.left_out[0].code, str)
    assert_type(converted.outcome, mp.Outcome)
    assert_type(found.outcome, mp.Outcome | None)
    warning = mp.OutcomeWarning("x", "model.h5", converted.parts)
    assert_type(warning.parts, tuple[mp.LeftOut, ...])
    try:
        mp.load_model("nothing")
    except mp.LegacyModelError as error:
        print(error)
    assert_type(mp.KerasPoliciesWarning("x"), mp.KerasPoliciesWarning)
    assert_type(mp.__version__, str)
