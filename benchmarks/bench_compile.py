"""How long do tracing and compiling the first step take, compared with stock Keras?

KERAS_BACKEND=jax python -m benchmarks.bench_compile [--quick] [--works B]
"""

from benchmarks import results, timing, works

TARGET = 1.05


def main(arguments):
    for work in arguments.works or "B":

        def first_step(variant, work=work):
            def run(n):
                for _ in range(n):
                    model, x, y = works.compiled(work, variant)
                    model.train_on_batch(x, y)

            return run

        runs = {
            variant: first_step(variant) for variant in ("none", "stock", "dynamic")
        }
        times = timing.by_turns(runs, 2 if arguments.quick else 9, 0.0)
        for other, target in ("stock", TARGET), ("none", None):
            ratio = timing.ratio(times["dynamic"], times[other])
            yield results.Row(f"first step {work}", f"dynamic / {other}", ratio, target)


if __name__ == "__main__":
    results.run(main, __doc__)
