"""How often does the host wait for the GPU in a training step?

    KERAS_BACKEND=torch python -m benchmarks.bench_waits

Model B, with each kind of loss scaling; torch.amp.GradScaler in a plain loop.
"""

from benchmarks import devices, others, results, steps, works

STEPS = 20


def _waits(run):
    with devices.waits() as found:
        run(STEPS)
    return len(found) / STEPS


def main(arguments):
    if devices.gpu() is None or devices.BACKEND == "tensorflow":
        return
    runs = {variant: steps.stepper("B", variant) for variant in works.VARIANTS}
    if devices.BACKEND == "torch":
        runs[others.NAME] = others.runs()["dynamic"]
    for name, run in runs.items():
        yield results.Figure("waits in a step B", name, f"{_waits(run):.2f}")


if __name__ == "__main__":
    results.run(main, __doc__)
