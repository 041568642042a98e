"""How does the cost grow with the number of variables and of parameters?

    KERAS_BACKEND=torch python -m benchmarks.bench_growth [--quick | --long]

Times `optimizer.apply` alone on given gradients, compiled if the backend compiles.
`python -m benchmarks.pictures` draws the results. SGD updates the many variables,
because jax takes 16 minutes to compile Adam for 10,000 of them. Adam updates the many
parameters, because it moves more memory. --long includes 10,000 variables, which take
minutes to compile, and 100 million parameters, which take 8 GB.
"""

import keras
import numpy as np

from benchmarks import results, timing, works

VARIABLES = [10, 100, 1000, 10_000]  # of one number each
PARAMETERS = [10**4, 10**5, 10**6, 10**7, 10**8]  # in ten variables
VARIANTS = "none", "dynamic", "stock"


def _applier(variant, inner, count, size):
    """Return `run(n)` of `apply` on `count` variables, `size` numbers in all."""
    shape = () if size == count else (size // count,)
    variables = [keras.Variable(np.ones(shape, "float32")) for _ in range(count)]
    optimizer = works.optimizer(variant, inner)
    optimizer.build(variables)
    make = {"jax": _on_jax, "tensorflow": _on_tensorflow, "torch": _on_torch}
    run = make[works.BACKEND](optimizer, variables)
    run(2)
    return run


def _on_jax(optimizer, variables):
    import jax

    apply = jax.jit(optimizer.stateless_apply, donate_argnums=(0, 2))
    gradients = [variable.value * 1e-3 for variable in variables]
    state = [[v.value for v in group] for group in (optimizer.variables, variables)]
    state = jax.tree.map(jax.numpy.copy, state)

    def run(n):
        nonlocal state
        for _ in range(n):
            values, slots = apply(state[0], gradients, state[1])
            state = [slots, values]
        jax.block_until_ready(state)

    return run


def _on_tensorflow(optimizer, variables):
    import tensorflow as tf

    sources = [tf.Variable(variable.value * 1e-3) for variable in variables]

    @tf.function(autograph=False)
    def apply():
        optimizer.apply([source.read_value() for source in sources], variables)
        return tf.constant(0)

    def run(n):
        for _ in range(n):
            int(apply())

    return run


def _on_torch(optimizer, variables):
    import torch

    for variable in variables:
        variable.value.grad = torch.full_like(variable.value, 1e-3)
    gradients = [variable.value.grad for variable in variables]

    def run(n):
        with torch.no_grad():
            for _ in range(n):
                optimizer.apply(gradients, variables)

    return run


def main(arguments):
    end = 2 if arguments.quick else None if arguments.long else -1
    rounds = 5 if arguments.quick else 15
    variables = [(n, n) for n in VARIABLES[:end]]
    parameters = [(10, n) for n in PARAMETERS[:end]]
    for label, inner, sizes in (
        ("variables of one number, SGD", keras.optimizers.SGD, variables),
        ("parameters in ten variables, Adam", keras.optimizers.Adam, parameters),
    ):
        for count, size in sizes:
            runs = {name: _applier(name, inner, count, size) for name in VARIANTS}
            times = timing.by_turns(runs, rounds, 0.02)
            ratio = timing.ratio(times["dynamic"], times["stock"])
            yield results.Row(f"{size:,} {label}", "dynamic / stock", ratio, 1.0)


if __name__ == "__main__":
    results.run(main, __doc__)
