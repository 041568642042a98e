"""Prepares docstrings for the site: examples as code, each type once, links."""

import re
import textwrap

import griffe

SECTION = "\nExample:\n"
# Name -> its page below https://keras.io/api/.
KERAS = {
    "keras.DTypePolicy": "mixed_precision/policy",
    "keras.Input": "layers/core_layers/input",
    "keras.Model": "models/model",
    "keras.ops": "ops",
    "keras.optimizers.LossScaleOptimizer": "optimizers/loss_scale_optimizer",
    "keras.optimizers.Optimizer": "optimizers",
}
NAME = re.compile(r"(?<!\[)`({})`".format("|".join(map(re.escape, KERAS))))


def _linked(text):
    """Return text in which names of Keras link to its reference."""
    return NAME.sub(
        lambda found: f"[{found[0]}](https://keras.io/api/{KERAS[found[1]]}/)", text
    )


def _as_code(text):
    """Indent the section of examples and rename it, as griffe requires."""
    about, section, example = text.partition(SECTION)
    if not section:
        return _linked(about)
    return f"{_linked(about)}\nExamples:\n" + textwrap.indent(
        textwrap.dedent(example), "    "
    )


class Examples(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = _as_code(obj.docstring.value)

    def on_function(self, *, func, **kwargs):
        # The text of each argument begins with its type, in words.
        func.returns = None
        for parameter in func.parameters:
            parameter.annotation = None
