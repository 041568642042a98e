"""What does a settled `Policy` cost in an eager call of a layer?

    KERAS_BACKEND=torch python -m benchmarks.bench_call [--quick]

Compares a layer with our policy to a layer with a stock policy. Then compares the stock
layer to itself with the `Layer.__call__` of a process without the package.
"""

import keras
import numpy as np

import keras_policies
from benchmarks import results, timing

TARGET = 1.02


def _caller(policy, call=None):
    layer = keras.layers.Dense(8, dtype=policy)
    x = keras.ops.convert_to_tensor(np.ones((1, 8), "float16"))
    layer(x)
    call = call or keras.Layer.__call__

    def run(n):
        for _ in range(n):
            call(layer, x)

    return run


def main(arguments):
    stock = keras.DTypePolicy("float16")
    settled = keras_policies.Policy("infer")
    runs = {
        "stock": _caller(stock),
        "without": _caller(stock, keras.Layer.__call__.__wrapped__),
        "Policy": _caller(keras_policies.Policy("float16")),
        "infer": _caller(settled),
    }
    rounds = 10 if arguments.quick else 5 * arguments.rounds
    times = timing.by_turns(runs, rounds, 0.005)
    for one, other, words in (
        ("Policy", "stock", 'Policy("float16") / DTypePolicy("float16")'),
        ("infer", "stock", 'settled Policy("infer") / DTypePolicy("float16")'),
        ("stock", "without", "with the package / without"),
    ):
        ratio = timing.ratio(times[one], times[other])
        yield results.Row("eager call", words, ratio, TARGET)


if __name__ == "__main__":
    results.run(main, __doc__)
