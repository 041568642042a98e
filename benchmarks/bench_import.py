"""How much does `import keras_policies` add to `import keras`?

Runs `python -X importtime` several times. Prints the median and the spread of the
cumulative time that importing the package takes after Keras.
"""

import statistics
import subprocess
import sys

RUNS = 9
TARGET_MS = 30


def milliseconds():
    command = [sys.executable, "-X", "importtime", "-c", "import keras, keras_policies"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (line,) = (x for x in printed.splitlines() if x.split("|")[-1] == " keras_policies")
    return int(line.split("|")[1]) / 1000


def main():
    times = [milliseconds() for _ in range(RUNS)]
    median = statistics.median(times)
    print(
        f"import keras_policies: median {median:.1f} ms of {RUNS} runs "
        f"({min(times):.1f} to {max(times):.1f}), target {TARGET_MS} ms: "
        f"{'PASS' if median <= TARGET_MS else 'FAIL'}"
    )


if __name__ == "__main__":
    main()
