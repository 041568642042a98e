"""Open mutated files: `python tests/hostile/hostile.py --inputs 100000`.

Prints the outcomes for each format, the slowest input, the one that took the most
memory, and each finding. A finding is an input that gave neither the original's model
nor an error of ours, cost more than 1 GiB or 400 million rounds of a loop (some 10 s),
or made the process open, write or import something else. After mutations of numbers and
structure, inputs may cost no more than hostile_costs.py allows.
"""

import argparse
import collections
import json
import os
import pathlib
import select
import subprocess
import sys
import time

import hostile_costs
import hostile_structures
import hostile_worker

MAX_LOOPS = 2 * hostile_costs.LOOPS
MAX_WAIT = 900  # seconds for an answer, on a machine that does other work
MAX_BYTES = 1024**3
STARTING_SECONDS = 300
# Mutations after which a file may cost no more than its size explains.
COSTED = {"sizes", *hostile_structures.RECORDED, *hostile_structures.GRAPH_SIZES}
NOTHING = {"seconds": 0, "loops": 0, "bytes": 0}
FINE = "equal", "refused", "of Keras 3", "none", "different"


class Worker:
    """A process that opens inputs; it is started again when it has died."""

    def __init__(self, backend="numpy", program=hostile_worker.__file__):
        self.program = program
        self.environment = {
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": str(pathlib.Path(__file__).parents[2]),
            "HDF5_USE_FILE_LOCKING": "FALSE",
        }
        self.process = None

    def _start(self):
        command = [sys.executable, "-W", "ignore", self.program]
        self.process = subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        if self._answer(STARTING_SECONDS) != b"ready\n":
            raise RuntimeError("the worker did not start: are the originals there?")

    def _answer(self, seconds):
        """Return the next line, None after a timeout, or b"" if the process died."""
        line, end = b"", time.monotonic() + seconds
        while not line.endswith(b"\n"):
            left = max(0, end - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                return b""
            line += part
        return line

    def ask(self, question, seconds):
        """Return the answer to a line; None if none comes, b"" if the process died."""
        if self.process is None:
            self._start()
        self.process.stdin.write(f"{question}\n".encode())
        return self._answer(seconds)

    def open(self, kind, mutation, seed):
        """Return what the worker reports about an input, or how the input killed it.

        One that cost too much is opened twice more: other programs make it slower, but
        never faster.
        """
        found = self._open(kind, mutation, seed)
        for _ in range(2):
            if _excess(mutation, found) is None:
                break
            again = self._open(kind, mutation, seed)
            found["loops"] = min(found["loops"], again["loops"])
        return found

    def _open(self, kind, mutation, seed):
        answer = self.ask(f"{kind} {mutation} {seed}", MAX_WAIT)
        if not answer:
            status = self.close()
            outcome = "hang" if answer is None else f"crash ({status})"
            return {"outcome": outcome, "seen": [], **NOTHING}
        return {**NOTHING, "detail": "", **json.loads(answer)}

    def close(self):
        """End the process; return its exit status."""
        if self.process is None:
            return None
        self.process.stdin.close()
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.kill()
        status = self.process.wait()
        self.process.stdout.close()
        self.process = None
        return status


def problem(kind, mutation, found):
    """Return what is wrong with the outcome of an input, or None."""
    if found["seen"]:
        return f"seen: {found['seen'][:3]}"
    if found["outcome"] not in FINE:
        return f"{found['outcome']}: {found.get('detail')}"
    checked = kind in hostile_worker.CHECKED and mutation in hostile_worker.CHECKSUMMED
    if found["outcome"] == "different" and checked:
        return f"another model than the original: {found['detail']}"
    return _excess(mutation, found)


def _excess(mutation, found):
    """Return how much too much an input cost, or None."""
    if mutation in COSTED and "size" in found:
        cost = {**found, "outcome": "opened"}
        return hostile_costs.problem(cost, found["size"])
    if found["loops"] > MAX_LOOPS or found["bytes"] > MAX_BYTES:
        return f"{found['loops']:.0f} loops, {found['bytes'] / 2**20:.0f} MiB"
    return None


def cases(inputs, seed, only=""):
    """Yield `(format, mutation, seed)`, with every mutation equally often."""
    every = [
        (kind, name)
        for kind in hostile_worker.FORMATS
        for name in hostile_worker.mutations(kind)
        if f"{kind}/{name}".startswith(tuple(only.split(",")))
    ]
    for number in range(inputs):
        yield *every[number % len(every)], seed + number // len(every)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most")
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--only", default="", help="format[/mutation], ...")
    options = parser.parse_args()
    worker, ends = Worker(options.backend), collections.defaultdict(collections.Counter)
    slowest = largest = (0, "")
    findings, start = 0, time.monotonic()
    for case in cases(options.inputs, options.seed, options.only):
        kind, mutation, seed = case
        if time.monotonic() - start > options.seconds:
            break
        found = worker.open(*case)
        ends[kind][found["outcome"]] += 1
        slowest = max(slowest, (found["seconds"], str(case)))
        largest = max(largest, (found["bytes"], str(case)))
        wrong = problem(kind, mutation, found)
        if wrong:
            findings += 1
            print(f"{kind} {mutation} {seed}: {wrong}", flush=True)
    worker.close()
    for kind, counted in ends.items():
        print(f"{kind}: {counted.total()} inputs: {dict(counted.most_common())}")
    print(f"slowest: {slowest[0]:.2f} s, {slowest[1]}")
    print(f"largest: {largest[0] / 2**20:.0f} MiB, {largest[1]}")
    print(f"{findings} findings in {time.monotonic() - start:.0f} s")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
