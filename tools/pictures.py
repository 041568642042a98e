"""Draws the pictures of the pages: `KERAS_BACKEND=torch python tools/pictures.py`.

They are SVG, light or dark as the reader's system is, each on a ground of its own. The
loss scale is that of a training, and the report that of a command, both run here.
"""

import html
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
MODELS = ROOT / "tests" / "data" / "legacy"
STYLE = """<style>
  .ground { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #f6f8fa; stroke: #d0d7de }
  text { fill: #1f2328; font: 14px ui-monospace, Menlo, Consolas, monospace;
         white-space: pre }
  .title { font: 600 14px system-ui, sans-serif }
  .note { fill: #59636e; font: 13px system-ui, sans-serif }
  .line { fill: none; stroke: #0969da; stroke-width: 2 }
  .axis { fill: none; stroke: #d0d7de }
  .mark { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d }
    .box { fill: #151b23; stroke: #3d444d }
    text { fill: #f0f6fc }
    .note { fill: #9198a1 }
    .line { stroke: #4493f8 }
    .axis { stroke: #3d444d }
    .mark { fill: #f85149 }
  }
</style>"""
LINE, PAD = 20, 14
# Title, lines, and what leads to the next box.
LOST_LAYER = [
    (
        "SavedModel: the class of the layer is lost",
        "w      = ReadVariableOp\nb      = ReadVariableOp\nMatMul = MatMul(x, w)\n"
        "add    = AddV2(MatMul, b)\nRelu   = Relu(add)",
        "nodes that read a variable become arguments",
    ),
    (
        "Steps",
        "0  MatMul(x, variable w)\n1  AddV2(step 0, variable b)\n2  Relu(step 1)",
        "a product with a variable is a Dense, b its bias",
    ),
    (
        "Stock layers",
        "0  Dense(3)   kernel: w, bias: b\n1  ops.relu",
        "built, and given the weights",
    ),
    (
        "keras.Model",
        "x -> Dense, 15 parameters -> relu",
        "checked: NumPy runs the five nodes of the file",
    ),
]


def text(x, y, words, kind=""):
    return f'<text x="{x}" y="{y}" class="{kind}">{html.escape(words)}</text>'


def box(x, y, width, height, kind="box"):
    size = f'width="{width}" height="{height}"'
    return f'<rect x="{x}" y="{y}" {size} rx="6" class="{kind}"/>'


def write(name, width, height, parts):
    """Write a picture of parts on a ground."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    size = f' width="{width}" height="{height}" role="img">'
    ground = box(0.5, 0.5, width - 1, height - 1, "ground")
    content = "\n".join([head + size, STYLE, ground, *parts, "</svg>", ""])
    (DOCS / name).write_text(content, "utf8")


def lost_layer():
    """Draw how a layer whose class is lost becomes stock layers."""
    parts, y, width = [], PAD, 400
    for title, lines, then in LOST_LAYER:
        rows = lines.split("\n")
        parts.append(text(PAD, y + 14, title, "title"))
        parts.append(box(PAD, y + 24, width - 2 * PAD, LINE * len(rows) + 12))
        for i, row in enumerate(rows):
            parts.append(text(2 * PAD, y + 45 + LINE * i, row))
        y += 24 + LINE * len(rows) + 12
        parts.append(text(2 * PAD, y + 22, f"↓ {then}", "note"))
        y += 40
    parts[-1] = parts[-1].replace("↓", "✓")
    write("lost_layer.svg", width, y + 2, parts)


def trained():
    """Return the loss scale of each step of a training that overflows at first."""
    import keras
    import numpy as np

    import keras_policies as mp

    keras.utils.set_random_seed(0)
    rule = mp.DynamicLossScale(2.0**20, increment_period=15)
    mp.set_policy(mp.Policy("mixed_float16", rule))
    layers = [keras.Input((8,)), keras.layers.Dense(1, dtype="float32")]
    layers.insert(1, keras.layers.Dense(16, "relu"))
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(1600, 8)).astype("float32")
    y = 3 * x.sum(axis=1, keepdims=True)
    scales = []

    def keep(batch, logs):
        scales.append(float(model.optimizer.loss_scale))

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=keep)
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[callback])
    return scales


def loss_scale(scales):
    """Draw the loss scale of each step; a step after which it is lower was skipped."""
    import math

    width, height, left, top, bottom = 640, 260, 56, 44, 216
    exponents = [math.log2(scale) for scale in scales]
    low, high = math.floor(min(exponents)), math.ceil(max(exponents))

    def place(step, exponent):
        x = left + (width - left - PAD) * step / (len(scales) - 1)
        return x, bottom - (bottom - top) * (exponent - low) / (high - low)

    parts = [text(PAD, 26, "The loss scale of a training", "title")]
    for exponent in range(low, high + 1):
        _, y = place(0, exponent)
        parts.append(f'<path d="M{left} {y:.1f}H{width - PAD}" class="axis"/>')
        parts.append(text(PAD, round(y + 5), f"2^{exponent}", "note"))
    start = "M{:.1f} {:.1f}".format(*place(0, exponents[0]))
    path = [start]
    for step, exponent in enumerate(exponents[1:], 1):
        x, y = place(step, exponent)
        path.append(f"H{x:.1f}V{y:.1f}")
    parts.append(f'<path d="{"".join(path)}" class="line"/>')
    for step in range(1, len(scales)):
        if exponents[step] < exponents[step - 1]:
            x, y = place(step, exponents[step])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="mark"/>')
    said = f"{len(scales)} steps; a dot is a step that was skipped"
    parts.append(text(left, height - 16, said, "note"))
    write("loss_scale.svg", width, height, parts)


def report():
    """Draw what `convert` prints of models of four kinds."""
    corpus, missing = MODELS / "corpus/2.4.4", "2.15.1/custom_layer/saved_model"
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(MODELS / "more.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        names = {
            "dense.h5": corpus / "seq_dense_bf16/model.h5",
            "mixed": corpus / "func_conv_fixed/saved_model",
            "lost_class": pathlib.Path(folder, missing),
        }
        zoo = pathlib.Path(folder, "zoo")
        zoo.mkdir()
        for name, source in names.items():
            (zoo / name).symlink_to(source)
        command = ["convert", "zoo", "--recursive", "--output-dir", "new"]
        program = [sys.executable, "-W", "ignore", "-m", "keras_policies_cli"]
        done = subprocess.run(
            [*program, *command], cwd=folder, capture_output=True, text=True
        )
    printed = ["$ keras-policies " + " ".join(command), *done.stdout.splitlines()]
    lines = [part for line in printed for part in textwrap.wrap(line, 72) or [""]]
    width = PAD * 2 + round(8.5 * max(map(len, lines)))
    parts = [text(PAD, 30 + LINE * i, line) for i, line in enumerate(lines)]
    write("report.svg", width, 30 + LINE * len(lines), parts)


if __name__ == "__main__":
    lost_layer()
    loss_scale(trained())
    report()
