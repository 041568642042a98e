"""Training loops as sentences: calls of a `LossScaleOptimizer`, eager or compiled.

The true gradient is 1, the optimizer SGD(1.0), the loss scale 1024: each right step
moves the weight by -1. A wrong one moves it by -1024 or -1/1024.

A loop is a text such as `"scale_loss (log ~ apply)"`: the words in parentheses are one
compiled function. `log@1` happens at step 1 only. `~` makes new tensors of the
gradients, as clipping does. `apply=True` passes `are_scaled=True`.
"""

import re

import keras
from keras import ops

BACKEND = keras.backend.backend()
SCALE = 1024.0


class Loop:
    """Runs loops with one optimizer and one weight; `weights`: after each step."""

    def __init__(self, optimizer, weight=None):
        self.optimizer = optimizer
        self.weight = keras.Variable([0.0]) if weight is None else weight
        self.weights, self._compiled = [], {}
        optimizer.build([self.weight])

    def run(self, text, steps=3):
        for step in range(steps):
            tensors = {}
            for compiled, piece in re.findall(r"(\()?([\w@,=~ ]+)\)?", text):
                words = [w for w in piece.split() if self._is_now(w, step)]
                calls = [word.split("@")[0] for word in words]
                run = self._function(tuple(calls)) if compiled and calls else None
                tensors = run(tensors) if run else self._call(calls, tensors)
            self.weights.append(float(ops.convert_to_numpy(self.weight)[0]))
        return self.weights

    @staticmethod
    def _is_now(word, step):
        return "@" not in word or str(step) in word.split("@")[1].split(",")

    def _call(self, words, tensors):
        tensors = dict(tensors)
        for word in words:
            name, _, said = word.partition("=")
            options = {"are_scaled": said == "True"} if said else {}
            self._word(name, tensors, options)
        return tensors

    def _word(self, word, tensors, options):
        optimizer, pairs = self.optimizer, tensors.get("gradients", [])
        one = ops.convert_to_tensor([1.0])
        if word in ("scale_loss", "get_scaled_loss"):
            tensors["gradients"] = [getattr(optimizer, word)(one)]
        elif word == "multiply":
            tensors["gradients"] = [one * optimizer.loss_scale]
        elif word == "unscaled":
            tensors["gradients"] = optimizer.get_unscaled_gradients(pairs)
        elif word == "log":
            tensors["norm"] = optimizer.get_unscaled_gradients(pairs)
        elif word == "unscale":
            tensors["norm"] = optimizer.unscale(pairs)
        elif word == "~":
            tensors["gradients"] = [gradient + 0.0 for gradient in pairs]
        elif word == "zeros":
            optimizer.apply_gradients([(ops.zeros(1), self.weight)])
        elif word == "apply":
            optimizer.apply(pairs, [self.weight], **options)
        elif word == "apply_gradients":
            optimizer.apply_gradients(
                [(gradient, self.weight) for gradient in pairs], **options
            )
        elif word == "stateless_apply":
            self._stateless(pairs, options)
        else:
            raise KeyError(word)

    def _stateless(self, gradients, options):
        variables = self.optimizer.variables
        values = [ops.convert_to_tensor(v) for v in variables]
        weights, values = self.optimizer.stateless_apply(
            values, gradients, [ops.convert_to_tensor(self.weight)], **options
        )
        for variable, value in zip(
            [self.weight, *variables], [*weights, *values], strict=True
        ):
            variable.assign(value)

    def _function(self, words):
        if words not in self._compiled:
            call = lambda tensors: self._call(words, tensors)  # noqa: E731
            self._compiled[words] = COMPILE[BACKEND](call, self)
        return self._compiled[words]


def _with_jax(call, loop):
    import jax

    variables = [loop.weight, *loop.optimizer.variables]

    def stateless(values, tensors):
        mapping = [*zip(variables, values, strict=True)]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            tensors = call(tensors)
        return [scope.get_current_value(v) for v in variables], tensors

    compiled = jax.jit(stateless)

    def run(tensors):
        values, tensors = compiled([v.value for v in variables], tensors)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return tensors

    return run


def _with_tensorflow(call, loop):
    import tensorflow as tf

    return tf.function(call)


def _with_torch(call, loop):
    import torch

    return torch.compile(call, backend="eager")


COMPILE = {"jax": _with_jax, "tensorflow": _with_tensorflow, "torch": _with_torch}
