import re

import keras
import legacy_files
import numpy as np
import pytest
from keras import layers

import keras_policies as mp
from keras_policies.diagnostics import on_batch
from keras_policies.diagnostics import summary as summaries
from keras_policies.loss_scaling import status

FLOAT32 = "; give the layer dtype='float32'"
SOFTMAX = "softmax in float16" + FLOAT32
NARROW_OUTPUT = (
    "output of {} in float16: nothing above 65504, about 3 decimal digits" + FLOAT32
)
UNSCALED = (
    "float16 without a loss scale: small gradients become zero; "
    "set_policy('mixed_float16') before you create or load the model, or compile with "
    "a LossScaleOptimizer"
)
LOST = (
    "float16 weights: an update under 1/4096 of a weight is lost; use 'mixed_float16'"
)


def rows(model):
    return {row.path: row for row in summaries.rows_of(model)}


def columns(model, *names):
    return [
        tuple(getattr(row, name) for name in ("path", *names))
        for row in summaries.rows_of(model)
    ]


def sequential(*parts, shape=(8,)):
    return keras.Sequential([keras.Input(shape), *parts])


def test_the_model_comes_first_and_then_its_layers():
    mp.set_policy(mp.Policy("mixed_float16", 128))
    dense = layers.Dense(4, name="hidden")
    model = sequential(dense, layers.Dense(1, dtype="float32", name="out"))
    model.compile("sgd", "mse")
    scale = status.Scaling(mp.FixedLossScale(128), 128.0, is_compiled=True)
    common = {"depth": 1, "class_name": "Dense", "loss_scale": scale, "risks": ()}
    first, *others = summaries.rows_of(model)
    assert (first.path, first.name, first.class_name) == ("", model.name, "Sequential")
    assert (first.policy, first.depth) == ("mixed_float16", 0)
    assert (first.loss_scale, first.risks) == (scale, ())
    assert others == [
        summaries.Row(
            path="hidden",
            name="hidden",
            policy="mixed_float16",
            compute_dtype="float16",
            variable_dtype="float32",
            **common,
        ),
        summaries.Row(
            path="out",
            name="out",
            policy="float32",
            compute_dtype="float32",
            variable_dtype="float32",
            **common,
        ),
    ]


def test_a_layer_keeps_its_policy_when_the_global_one_changes():
    with mp.policy_scope("mixed_float16"):
        model = sequential(layers.Dense(1, name="a"))
    later = layers.Dense(1, name="b")
    model.add(later)
    later.dtype_policy = "float16"
    assert columns(model, "policy")[1:] == [("a", "mixed_float16"), ("b", "float16")]


def test_parts_of_attention_have_rows_of_their_own():
    mp.set_policy("mixed_float16")
    x = keras.Input((3, 4))
    plain = layers.MultiHeadAttention(1, 2, name="plain")
    dropping = layers.MultiHeadAttention(1, 2, dropout=0.5, name="dropping")
    model = keras.Model(x, dropping(plain(x, x), x))
    found = rows(model)
    parts = [row for row in found.values() if row.depth == 2]
    assert {row.policy for row in parts} == {"mixed_float16"}
    assert {row.class_name for row in parts} >= {"EinsumDense", "Softmax"}
    said = {row.path.split("/")[0]: row.risks for row in parts if row.risks}
    assert said == {
        "plain": ("softmax in float16, if scores are requested" + FLOAT32,),
        "dropping": (SOFTMAX,),
    }


def test_nested_models_are_followed_and_a_shared_layer_stands_once():
    shared = layers.Dense(8, name="shared")
    inner = keras.Sequential([shared, layers.Dense(8, name="last")], name="inner")
    model = sequential(shared, inner)
    assert columns(model, "depth") == [
        ("", 0),
        ("shared", 1),
        ("inner", 1),
        ("inner/last", 2),
    ]


def test_an_entry_of_a_policy_map_is_the_policy_of_its_layers():
    policies = keras.dtype_policies.DTypePolicyMap(keras.DTypePolicy("float32"))
    policies[".*mapped.*"] = keras.DTypePolicy("mixed_bfloat16")
    names = "mapped_1", "other"
    model = sequential(*[layers.Dense(2, dtype=policies, name=n) for n in names])
    assert columns(model, "policy", "compute_dtype")[1:] == [
        ("mapped_1", "mixed_bfloat16", "bfloat16"),
        ("other", "float32", "float32"),
    ]


def test_a_deferred_policy_is_told_before_and_after_it_settles():
    mp.set_policy(mp.Policy("infer"))
    policies = keras.dtype_policies.DTypePolicyMap(mp.Policy("infer"))
    parts = [layers.Dense(2, name="a"), layers.Dense(2, dtype=policies, name="b")]
    model = keras.Sequential(parts, name="m")
    wanted = "policy", "compute_dtype", "risks"
    waits = ("waits for its first input",)
    assert columns(model, *wanted) == [
        ("", "infer", None, ()),
        ("a", "infer", None, waits),
        ("b", "infer", None, waits),
    ]
    model(keras.ops.ones((1, 3), "float16"))
    assert columns(model, "policy", "compute_dtype") == [
        ("", "float16", "float16"),
        ("a", "float16", "float16"),
        ("b", "float16", "float16"),
    ]


def test_a_model_read_from_a_file_says_that_its_loss_is_not_scaled(tmp_path):
    with mp.policy_scope("mixed_float16"):
        model = sequential(layers.LSTM(2, name="lstm"), shape=(3, 4))
        model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    read = keras.models.load_model(tmp_path / "model.keras")
    assert columns(read, "policy") == [
        ("", "float32"),
        ("lstm", "mixed_float16"),
        ("lstm/lstm_cell", "mixed_float16"),
    ]
    assert summaries.rows_of(model)[0].risks == (NARROW_OUTPUT.format("lstm"),)
    assert summaries.rows_of(read)[0].risks == (NARROW_OUTPUT.format("lstm"), UNSCALED)


def test_a_legacy_model_has_its_policies_from_the_file():
    model = mp.load_model(legacy_files.CORPUS / "2.4.4/func_conv_fixed/model.h5")
    first, *others = summaries.rows_of(model)
    assert first.policy == "mixed_float16"
    assert {row.policy for row in others} == {"mixed_float16", "float32"}


SCALINGS = {
    "dynamic policy": ("mixed_float16", "sgd", "dynamic, 32768"),
    "fixed policy": (mp.Policy("mixed_float16", 8), "sgd", "fixed, 8"),
    "no scale": (mp.Policy("mixed_float16", None), "sgd", "none"),
    "stock policy": (
        keras.DTypePolicy("mixed_float16"),
        "sgd",
        "dynamic, 32768 (plain Keras)",
    ),
    "at its minimum": (
        mp.Policy("mixed_float16", mp.DynamicLossScale(4, minimum=4)),
        "sgd",
        "dynamic, 4 (at its minimum)",
    ),
    "float32": ("float32", "sgd", "none"),
    "not compiled": ("mixed_float16", None, "dynamic, 32768, once compiled"),
    "stock policy, not compiled": (
        keras.DTypePolicy("mixed_float16"),
        None,
        "dynamic, 32768, once compiled",
    ),
    "an optimizer of ours": (
        "float32",
        lambda: mp.LossScaleOptimizer(keras.optimizers.SGD(), 64),
        "fixed, 64",
    ),
    "a subclass of the stock one": (
        "float32",
        lambda: type("Mine", (keras.optimizers.LossScaleOptimizer,), {})(
            keras.optimizers.SGD(), initial_scale=1
        ),
        "dynamic, 1 (plain Keras)",
    ),
    "loss_scale_factor": (
        "float32",
        lambda: keras.optimizers.SGD(loss_scale_factor=4),
        "fixed, 4 (plain Keras)",
    ),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_the_loss_scale_that_applies(name):
    policy, optimizer, expected = SCALINGS[name]
    mp.set_policy(policy)
    model = sequential(layers.Dense(1, dtype="float32"), layers.Flatten())
    if optimizer is not None:
        model.compile(optimizer() if callable(optimizer) else optimizer, "mse")
    first, dense, flatten = summaries.rows_of(model)
    assert str(first.loss_scale) == str(dense.loss_scale) == expected
    assert flatten.loss_scale is None


def test_a_loss_scale_that_has_moved_is_told():
    mp.set_policy(mp.Policy("mixed_float16", mp.DynamicLossScale(2.0**4, 1)))
    model = sequential(layers.Dense(1))
    model.compile("sgd", "mse")
    model.train_on_batch(np.ones((1, 8)), np.ones((1, 1)))
    assert str(status.scaling_of(model)) == "dynamic, 32"
    expected = "Halving, 2"
    assert str(status.Scaling(Halving(), 2.0, True)) == expected


class Halving(mp.LossScale):
    initial_loss_scale = 2.0

    def after_step(self, scale, good_steps, finite):
        return scale, good_steps

    def get_config(self):
        return {}


RISKS = {
    "softmax layer": (lambda: layers.Softmax(dtype="float16"), (SOFTMAX,)),
    "softmax activation": (
        lambda: layers.Activation("softmax", dtype="mixed_float16"),
        (SOFTMAX,),
    ),
    "log_softmax": (
        lambda: layers.Dense(2, activation="log_softmax", dtype="mixed_float16"),
        ("log_softmax in float16" + FLOAT32,),
    ),
    "exponential": (
        lambda: layers.Activation("exponential", dtype="mixed_float16"),
        ("exponential in float16" + FLOAT32,),
    ),
    "softmax in bfloat16": (
        lambda: layers.Dense(2, activation="softmax", dtype="mixed_bfloat16"),
        ("softmax in bfloat16" + FLOAT32,),
    ),
    "softmax in float32": (lambda: layers.Softmax(dtype="float32"), ()),
    "another activation": (lambda: layers.Activation("relu", dtype="float16"), ()),
    "float16 weights": (lambda: layers.Dense(2, dtype="float16"), (LOST,)),
    "bfloat16 weights": (
        lambda: layers.Dense(2, dtype="bfloat16"),
        (
            "bfloat16 weights: an update under 1/512 of a weight is lost; "
            "use 'mixed_bfloat16'",
        ),
    ),
    "frozen float16 weights": (
        lambda: layers.Dense(2, dtype="float16", trainable=False),
        (),
    ),
    "loss scale of a layer": (
        lambda: layers.Dense(2, dtype=mp.Policy("mixed_float16", 8)),
        ("its policy's FixedLossScale(8.0) is ignored: the optimizer's is used",),
    ),
    "no loss scale of a layer": (
        lambda: layers.Dense(2, dtype=mp.Policy("mixed_float16", None)),
        (),
    ),
    "loss scale that its policy has anyway": (
        lambda: layers.Dense(2, dtype=mp.Policy("mixed_float16")),
        (),
    ),
    "dynamic float16": (
        lambda: layers.Activation("relu", dtype=mp.Policy("float16", "dynamic")),
        (
            f"its policy's {mp.DynamicLossScale()!r} is ignored: "
            "the optimizer's is used",
        ),
    ),
}


@pytest.mark.parametrize("name", RISKS)
def test_a_word_on_a_layer_at_risk(name):
    make, expected = RISKS[name]
    assert summaries.rows_of(sequential(make()))[1].risks == expected


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 12), ("bfloat16", 9)])
def test_an_update_is_lost_just_where_the_word_says(dtype, bits):
    weights = keras.ops.arange(1, 2, 1 / 64, dtype="float32")
    updates = weights * 0.99 * 2.0**-bits
    narrow = keras.ops.cast(weights, dtype)
    added = keras.ops.cast(weights + updates, dtype)
    assert bool(keras.ops.all(added == narrow))
    added = keras.ops.cast(weights + 2.1 * updates, dtype)
    assert not bool(keras.ops.any(added == narrow))


def test_attention_without_heads_takes_a_softmax():
    x = keras.Input((3, 4))
    model = keras.Model(x, layers.Attention(dtype="float16", name="a")([x, x]))
    assert rows(model)["a"].risks == (SOFTMAX,)


LOSSES = {
    "a name": ("mse", ()),
    "a function": (lambda y, p: keras.ops.mean(y - p), ()),
    "in float16": (
        keras.losses.MeanSquaredError(dtype="float16"),
        ("loss computed in float16; give the loss dtype='float32'",),
    ),
    "one of a list": (
        [keras.losses.MeanSquaredError(dtype="bfloat16")],
        ("loss computed in bfloat16; give the loss dtype='float32'",),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_word_on_the_dtype_of_the_loss(name):
    loss, expected = LOSSES[name]
    model = sequential(layers.Dense(1))
    model.compile("sgd", loss)
    assert summaries.rows_of(model)[0].risks == expected


def test_the_loss_follows_floatx():
    keras.config.set_floatx("float16")
    model = sequential(layers.Dense(1, dtype="float32"))
    model.compile("sgd", "mse")
    assert summaries.rows_of(model)[0].risks == (
        "loss computed in float16; give the loss dtype='float32'",
    )


def test_a_loss_scale_given_to_a_layer_is_told_on_its_row_and_on_no_part():
    policy = mp.Policy("mixed_float16", 8)
    with mp.policy_scope(policy):
        inherits = layers.Dense(2, name="inherits")
    model = sequential(layers.LSTM(2, dtype=policy, name="l"), inherits, shape=(3, 4))
    found = {path: row.risks for path, row in rows(model).items() if path}
    word = "its policy's FixedLossScale(8.0) is ignored: the optimizer's is used"
    assert found == {"l": (word,), "l/lstm_cell": (), "inherits": (word,)}
    model.compile(mp.LossScaleOptimizer(keras.optimizers.SGD(), 8), "mse")
    assert rows(model)["l"].risks == ()


def test_ops_of_a_functional_model_are_looked_at():
    ops = keras.ops
    x = keras.Input((4,), dtype="float16")
    wide = ops.softmax(ops.cast(x, "float32"))
    inner = keras.Model(x, ops.cast(ops.exp(x), "float32"), name="inner")
    y = ops.log(ops.nn.softmax(keras.activations.log_softmax(x)))
    model = keras.Model(x, [wide, ops.cast(y, "float32"), inner(x)])
    found = [word.split("'") for word in summaries.rows_of(model)[0].risks]
    assert {first for first, _, _ in found} == {
        "ops.log ",
        "ops.softmax ",
        "ops.log_softmax ",
    }
    hint = " in float16; cast its inputs to float32"
    assert {last for _, _, last in found} == {hint}
    assert all(name.startswith(first[4:-1]) for first, name, _ in found)
    (word,) = rows(model)["inner"].risks
    assert word.startswith("ops.exp 'exp")


def test_an_output_that_an_op_makes_is_to_be_cast():
    x = keras.Input((4,), dtype="float16")
    model = keras.Model(x, keras.ops.square(x))
    (word,) = summaries.rows_of(model)[0].risks
    assert word.endswith("about 3 decimal digits; cast it to float32")


EPSILONS = {
    "zero": ("float16", lambda: keras.optimizers.Adam(epsilon=1e-8), True),
    "default": ("float16", keras.optimizers.Adam, False),
    "none": ("float16", keras.optimizers.SGD, False),
    "float32 weights": (
        "mixed_float16",
        lambda: keras.optimizers.Adam(epsilon=1e-8),
        False,
    ),
    "inner": (
        "float16",
        lambda: mp.LossScaleOptimizer(keras.optimizers.Adam(epsilon=1e-8)),
        True,
    ),
}


@pytest.mark.parametrize("name", EPSILONS)
def test_an_epsilon_that_is_zero_in_float16_is_told(name):
    dtype, make, is_told = EPSILONS[name]
    model = sequential(layers.Dense(1, dtype=dtype))
    model.compile(make(), "mse")
    word = (
        "Adam's epsilon 1e-08 is zero in float16: its updates divide by zero; give it "
        "epsilon=1e-4"
    )
    assert (word in summaries.rows_of(model)[0].risks) == is_told


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2, dtype=self.dtype_policy, name="dense")

    def call(self, x):
        return self.dense(x)


def test_a_subclassed_model_needs_not_be_built():
    mp.set_policy(mp.Policy("mixed_float16", None))
    model = Subclassed()
    nothing = status.Scaling(None, None, is_compiled=False)
    assert columns(model, "compute_dtype", "loss_scale", "risks") == [
        ("", "float16", nothing, ()),
        ("dense", "float16", None, ()),
    ]
    model(np.ones((1, 3)))
    assert summaries.rows_of(model)[0].risks == (UNSCALED,)


def test_bfloat16_needs_no_loss_scale():
    mp.set_policy("mixed_bfloat16")
    model = sequential(layers.Dense(1, name="last"))
    model.compile("sgd", "mse")
    expected = ("output of last in bfloat16: 2 to 3 decimal digits" + FLOAT32,)
    assert summaries.rows_of(model)[0].risks == expected


def text_of(model):
    passed = []
    mp.summary(model, print_fn=passed.append)
    return [line.rstrip() for line in passed[0].splitlines()]


def test_the_table_is_printed_or_passed_on(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    mp.set_policy("mixed_float16")
    model = sequential(layers.Dense(1, name="[last]"))
    assert mp.summary(model) is None
    printed = capsys.readouterr().out
    passed = []
    mp.summary(model, print_fn=passed.append)
    assert passed == [printed]
    heading, *table, word = [line.rstrip() for line in printed.splitlines()]
    assert heading == f"Sequential '{model.name}'"
    cells = [re.split(" {2,}", line.strip()) for line in table if line.strip()]
    dtypes = "mixed_float16", "float16", "float32"
    scale = "dynamic, 32768, once compiled"
    names = "layer", "class", "policy", "compute", "weights", "loss scale"
    assert cells[0] == [*names, "at risk"]
    assert cells[2:] == [
        ["(the model)", "Sequential", *dtypes, scale, "1"],
        ["[last]", "Dense", *dtypes, scale, "-"],
    ]
    assert word == f"1. the model: {NARROW_OUTPUT.format('[last]')}"
    assert max(map(len, printed.splitlines())) <= 160


@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_table_is_legible_in_a_terminal_of_few_columns(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    mp.set_policy("mixed_float16")
    x = keras.Input((6, 8))
    y = layers.MultiHeadAttention(2, 4, dropout=0.1, name="attention")(x, x)
    y = layers.Bidirectional(layers.LSTM(3), name="bidirectional")(y)
    y = layers.Dense(2, "softmax", dtype="float16", name="last")(y)
    model = keras.Model(x, y)
    lines = text_of(model)
    assert max(map(len, lines)) <= int(columns)
    assert lines[1:3] == [
        "loss scale: dynamic, 32768, once compiled",
        "mixed_float16: computes in float16, weights float32",
    ]
    shown = [line.split()[0] for line in lines if " mixed_float16 " in line]
    names = [re.sub(r"_\d+$", "", name) for name in shown]
    assert names == [
        "(the",
        "attention",
        "query",
        "key",
        "value",
        "softmax",
        "dropout",
        "attention_output",
        "bidirectional",
        "forward_lstm",
        "lstm_cell",
        "backward_lstm",
        "lstm_cell",
    ]
    (softmax,) = [line for line in lines if "Softmax" in line]
    assert softmax.split()[-1] == "2"
    name = softmax.split()[0]
    assert any(
        line.startswith(f"2. attention/{name}, last: softmax in") for line in lines
    )
    (last,) = [line for line in lines if " Dense " in line]
    assert last.split() == ["last", "Dense", "float16", "2,", "3"]


def test_columns_that_are_no_number_are_not_obeyed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "wide")
    mp.set_policy("mixed_float16")
    lines = text_of(sequential(layers.Dense(1, name="last")))
    assert f"1. the model: {NARROW_OUTPUT.format('last')}" in lines


def test_a_risk_of_many_layers_is_one_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    dense = [layers.Dense(8, dtype="float16", name=f"d{i}") for i in range(5)]
    last = layers.Dense(1, dtype="float32")
    assert f"2. d0, d1, d2, d3: {LOST}" in text_of(sequential(*dense[:4], last))
    assert f"2. d0, d1, d2 and 2 more: {LOST}" in text_of(sequential(*dense, last))


def test_a_model_that_is_not_built_says_so():
    word = "not built: outputs and weights are not known yet"
    model = keras.Sequential([layers.Dense(1)])
    assert text_of(model)[:2] == [f"Sequential '{model.name}'", word]
    model.build((1, 2))
    assert word not in text_of(model)


def test_what_is_passed_on_is_plain_text_wherever_it_runs(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    passed = []
    mp.summary(sequential(layers.Dense(1)), print_fn=passed.append)
    assert "(the model)" in passed[0]
    assert "\x1b" not in passed[0]


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="takes a keras.Model, but got: <Dense.*Wrap a"):
        mp.summary(layers.Dense(1))


def constant(units, value, **options):
    kernel = keras.initializers.Constant(value)
    return layers.Dense(units, use_bias=False, kernel_initializer=kernel, **options)


def test_the_first_layer_that_overflows_on_a_batch_is_named():
    mp.set_policy("mixed_float16")
    inner = sequential(
        constant(2, 100.0, name="first"), constant(2, 10.0, name="second"), shape=(2,)
    )
    inner.name = "inner"
    model = sequential(inner, constant(1, 1.0, name="last"), shape=(2,))
    x = np.full((3, 2), 40.0)
    # 2 * 40 * 100 = 8000 are finite; 2 * 8000 * 10 = 160000 are not.
    found = on_batch.first_overflow(model, x)
    assert found == on_batch.Overflow("inner/second", "Dense", "float16", np.inf)
    printed = []
    mp.summary(model, print_fn=printed.append, x=x)
    line = "on this batch: inner/second (Dense), in float16, up to inf; float16 ends at"
    assert line in printed[0]
    assert on_batch.first_overflow(model, x / 40) is None
    mp.summary(model, print_fn=printed.append, x=x / 40)
    assert "On this batch, all outputs are within float16's range." in printed[1]
    assert "call" not in vars(inner)
    assert model.predict(x / 40, verbose=0).tolist() == [[8000.0]] * 3


def test_a_float32_model_tells_what_float16_would_not_hold():
    model = sequential(constant(1, 1e5, name="large"), shape=(1,))
    found = on_batch.first_overflow(model, np.ones((1, 1)))
    assert found == on_batch.Overflow("large", "Dense", "float32", 100_000.0)
    found = on_batch.first_overflow(model, np.full((1, 1), 70_000.0, "float32"))
    assert str(found).startswith(
        "The first values outside of float16's range on this ba"
    )
    assert "the inputs, in float32, up to 7e+04" in str(found)


class TwoBranches(keras.Model):
    def __init__(self):
        super().__init__()
        self.early = constant(1, 1.0, name="early")
        self.late = layers.LSTM(2, name="late")
        self.scale = layers.Rescaling(np.inf, name="scale")

    def call(self, x):
        return {"late": self.late(x), "scale": self.scale(self.early(x))}


def test_a_subclassed_model_is_built_and_watched():
    model = TwoBranches()
    found = on_batch.first_overflow(model, np.ones((2, 3, 1)))
    assert found.path == "scale"
    assert model.built


class Standardize(layers.Layer):
    """Its variance, 1e6, leaves the range of float16, and its outputs are zeros."""

    def call(self, x):
        mean = keras.ops.mean(x, axis=1, keepdims=True)
        variance = keras.ops.mean(keras.ops.square(x - mean), axis=1, keepdims=True)
        return (x - mean) / keras.ops.sqrt(variance + 1e-5)


class OnlyNarrow(layers.Layer):
    def call(self, x):
        if keras.backend.standardize_dtype(x.dtype) != "float16":
            raise TypeError("float16 only")
        return x


def printed_lines(model, x):
    printed = []
    mp.summary(model, print_fn=printed.append, x=x)
    return " ".join(printed[0].split())


def test_arithmetic_of_an_own_layer_is_compared_with_float32():
    mp.set_policy("mixed_float16")
    own = Standardize(name="own")
    model = sequential(own, layers.Activation("relu", name="stock"), shape=(4,))
    model.compile("sgd", "mse")
    x = np.array([[1000.0, -1000.0, 1000.0, -1000.0]])
    said = printed_lines(model, x)
    assert "own: its own arithmetic in a narrow dtype differs" in said
    assert "by 100% of the largest output; give the layer dtype='float32'" in said
    assert own.compute_dtype == "float16"
    said = printed_lines(model, x / 1000)
    assert "Computes as in float32: the arithmetic of own." in said


def test_arithmetic_that_cannot_be_compared_is_not_cleared():
    mp.set_policy("mixed_float16")
    model = sequential(
        OnlyNarrow(name="own"), layers.Lambda(lambda x: x * 2, name="code"), shape=(4,)
    )
    said = printed_lines(model, np.ones((1, 4)))
    assert "Computes as in float32: the arithmetic of code." in said
    assert "Not looked at: the arithmetic of own." in said
