"""What does loss scaling cost per training step?

    KERAS_BACKEND=torch python -m benchmarks.bench_step [--quick] [--works AB]

Compares a step to the same step without loss scaling, and dynamic loss scaling to that
of stock Keras.
"""

from benchmarks import devices, others, results, steps, timing, works

# dynamic / none, fixed / none, dynamic / stock
TARGETS = {
    "A": (1.10, 1.02, 0.75),
    "B": (1.05, 1.02, 1.0),
    "C": (None, None, 1.0),
    "D": (None, None, 1.0),
    "E": (None, None, 1.0),
}


def rows(work, rounds, seconds):
    """Yield the rows of one model."""
    runs = {variant: steps.stepper(work, variant) for variant in works.VARIANTS}
    times = timing.by_turns(runs, rounds, seconds)
    dynamic, fixed, stock = TARGETS.get(work, (None, None, None))
    if devices.gpu() is not None:  # the targets are those of the CPU
        dynamic = fixed = stock = None
    elif works.BACKEND == "jax":
        stock = 1.0  # on jax, stock Keras adds no cost on A that we could save
    for one, other, target in (
        ("dynamic", "none", dynamic),
        ("fixed", "none", fixed),
        ("stock", "none", None),
        ("dynamic", "stock", stock),
    ):
        found = timing.ratio(times[one], times[other])
        yield results.Row(f"step {work}", f"{one} / {other}", found, target)


def main(arguments):
    names = arguments.works or ("AB" if arguments.quick else "ABCDE")
    rounds, seconds = (5, 0.02) if arguments.quick else (arguments.rounds, 0.03)
    for work in names:
        if (works.BACKEND, work) != ("torch", "E"):
            yield from rows(work, rounds, seconds)
    times = timing.by_turns(others.runs(), rounds, seconds)
    found = timing.ratio(times["dynamic"], times["none"])
    yield results.Row("step B", f"{others.NAME} / none of its own", found, None)


if __name__ == "__main__":
    results.run(main, __doc__)
