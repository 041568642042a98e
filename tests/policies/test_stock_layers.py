"""Every stock layer under our policies does what it does under Keras's own."""

import contextlib
import json
import re
import warnings

import keras
import legacy_files
import numpy as np
import packaging.version
import pytest
from keras import tree
from semantics import DATA
from stock_layers import NOT_RUN, TABLE, call, classes

from keras_policies import Policy, policy_scope

BACKEND = keras.backend.backend()
# Our policy, called on float16, and the stock policy with the same dtypes.
POLICIES = {
    "infer": "float16",
    "infer_with_float32_vars": "mixed_float16",
    "float16_with_float32_vars": "mixed_float16",
    "mixed_float16": "mixed_float16",
}
STAGES = "call", "gradient", "save"
CANNOT_FILE = DATA / "stock_cannot.json"
# class -> stock policy -> what fails in stock Keras on this backend
CANNOT = json.loads(CANNOT_FILE.read_text("utf8")).get(BACKEND, {})
RECORDED_ON = packaging.version.Version("3.15")
IS_OLDER = packaging.version.Version(keras.__version__) < RECORDED_ON


def test_the_table_leaves_no_class_out():
    assert set(classes()) - set(TABLE) - set(NOT_RUN) == set()
    if not IS_OLDER:
        assert set(TABLE) <= set(classes())


def described(structure):
    return [
        (tuple(x.shape), keras.backend.standardize_dtype(x.dtype))
        for x in tree.flatten(structure)
    ]


def loss_of(outputs):
    return sum(
        keras.ops.sum(keras.ops.cast(y, "float32"))
        for y in tree.flatten(outputs)
        if keras.backend.is_float_dtype(keras.backend.standardize_dtype(y.dtype))
    )


def gradients(layer, inputs):
    """Return shape and dtype of each weight's gradient of the summed output."""
    if not layer.trainable_variables:
        return []
    if BACKEND == "jax":
        import jax

        def loss(trainable):
            values = zip(layer.trainable_variables, trainable, strict=True)
            with keras.StatelessScope(state_mapping=list(values)):
                return loss_of(call(layer, inputs))

        values = [v.value for v in layer.trainable_variables]
        traced, found = jax.make_jaxpr(jax.grad(loss), return_shape=True)(values)
        return described(found), re.sub("0x[0-9a-f]+", "", str(traced))
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = loss_of(call(layer, inputs))
        grads = tape.gradient(loss, [v.value for v in layer.trainable_variables])
        return described([tf.convert_to_tensor(g) for g in grads])
    loss_of(call(layer, inputs)).backward()
    return described([v.value.grad for v in layer.trainable_variables])


def saved(layer, inputs, path):
    """Return the dtypes of the layer read back from a file."""
    symbols = tree.map_structure(
        lambda x: keras.Input(
            batch_shape=x.shape,
            dtype="string"
            if x.dtype.__class__.__name__.startswith("Str")
            else keras.backend.standardize_dtype(x.dtype),
        ),
        inputs,
    )
    model = keras.Model(symbols, call(layer, symbols))
    model.save(path)
    again = keras.saving.load_model(path, safe_mode=False)
    read = again.get_layer(layer.name)
    assert type(read.dtype_policy) in (
        keras.DTypePolicy,
        keras.dtype_policies.DTypePolicyMap,
    )
    for a, b in zip(layer.weights, read.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (a, b)))
    return [(x.compute_dtype, x.variable_dtype) for x in read._flatten_layers()]


def copied_under(name, policy):
    """Set the global policy for a layer that copies others by their configs.

    An unsettled policy has no name in a config, and the copy follows the global one.
    """
    is_deferred = isinstance(policy, Policy) and policy.is_deferred
    copies = name == "Bidirectional" and is_deferred
    return policy_scope(policy) if copies else contextlib.nullcontext()


def outcome(name, policy, path):
    """Return what each stage gives, or the type of the error it ends in."""
    make, make_inputs = TABLE[name]
    keras.utils.set_random_seed(0)
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inputs = make_inputs("float16")
            with copied_under(name, policy):
                layer = make(policy)
            results["call"] = (
                described(call(layer, inputs)),
                [w.dtype for w in layer.weights],
            )
        except Exception as error:
            return dict.fromkeys(STAGES, type(error).__name__)
        for stage, run in ("gradient", gradients), ("save", saved):
            try:
                arguments = (layer, inputs, path)[: 2 if stage == "gradient" else 3]
                results[stage] = run(*arguments)
            except Exception as error:
                results[stage] = type(error).__name__
    return results


# Keras makes these with TensorFlow or SciPy, on any backend.
WITH_OTHERS = {
    *("HashedCrossing", "Hashing", "IntegerLookup", "STFTSpectrogram"),
    *("StringLookup", "TextVectorization"),
}
SLOW = (
    pytest.mark.slow("Keras makes it with TensorFlow or SciPy"),
    pytest.mark.each_backend("stock layers are compared"),
)
MARKS = {
    **dict.fromkeys(WITH_OTHERS, SLOW),
    "RandAugment": legacy_files.needs_resizing,  # only some of what it draws resizes
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=MARKS.get(name, ()))
        for name in sorted(TABLE)
        if hasattr(keras.layers, name)
    ],
)
def test_layer_does_what_it_does_in_stock_keras(name, tmp_path):
    stock = {
        p: outcome(name, keras.DTypePolicy(p), tmp_path / "s.keras")
        for p in set(POLICIES.values())
    }
    for ours, theirs in POLICIES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            policy = Policy(ours)
        assert outcome(name, policy, tmp_path / "o.keras") == expected(
            name, ours, stock[theirs]
        )
    cannot = {
        p: failed
        for p, results in stock.items()
        if (failed := [s for s in STAGES if isinstance(results[s], str)])
    }
    if not IS_OLDER:
        assert cannot == CANNOT.get(name, {}), "stock Keras has changed: see CANNOT"


# A layer whose first tensor is integer settles on something else than float16.
ON_INTEGERS = {
    "Embedding": "float32",
    "ReversibleEmbedding": "float32",
    "CategoryEncoding": "int",
    "HashedCrossing": "int",
    "Hashing": "int",
    "IntegerLookup": "int",
    "StringLookup": "string",
    "TextVectorization": "string",
}


def expected(name, ours, stock):
    if name not in ON_INTEGERS or not ours.startswith("infer"):
        return stock
    return AnyOutcome(ON_INTEGERS[name], stock)


class AnyOutcome:
    """Equal to an outcome whose floating weights are float32 and which runs.

    Where stock Keras cannot run the layer (lookups without TensorFlow, say), the
    same error is equal too.
    """

    def __init__(self, kind, stock):
        self.kind, self.stock = kind, stock

    def __eq__(self, results):
        if isinstance(results["call"], str):
            return results == self.stock
        weights = {d for d in results["call"][1] if "float" in d}
        return weights == ({"float32"} if self.kind == "float32" else set())
