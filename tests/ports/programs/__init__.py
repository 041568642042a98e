"""Seventeen kinds of training script, as small programs that run in two worlds.

`PORTS` names every run: a program, its arguments, and the backends that it is for. A
loop or a `train_step` of TensorFlow code runs on TensorFlow, and the programs that
`compile` and `fit` run on every backend.
"""

import collections
import importlib

EVERYWHERE = ("jax", "tensorflow", "torch")
TENSORFLOW = ("tensorflow",)

# `warning` is what a run is warned of that cannot agree with the old release: Keras 3
# divides in `apply`, and does not call `apply_gradients` of an inner optimizer.
Port = collections.namedtuple("Port", "program arguments backends warning")

UNSCALED = r"divides the gradients .* scaled_loss = optimizer.get_scaled_loss\(loss\)"
BYPASSED = "ClippedWhereItWas overrides apply_gradients, .* Override apply instead"


def _port(program, backends, warning="", **arguments):
    return Port(program, arguments, backends, warning)


PORTS = {
    "accumulating": _port("accumulating", TENSORFLOW),
    "accumulating_lazy": _port("accumulating", TENSORFLOW, lazy=True),
    "autoencoder": _port("autoencoder", TENSORFLOW, UNSCALED),
    "bert": _port("bert", TENSORFLOW),
    "bert_as_it_was": _port("bert", TENSORFLOW, BYPASSED, as_it_was=True),
    "by_hand": _port("by_hand", TENSORFLOW),
    "dcgan": _port("dcgan", TENSORFLOW),
    "deepdanbooru": _port("deepdanbooru", EVERYWHERE),
    "dlrm": _port("dlrm", TENSORFLOW),
    "dlrm_own_scaling": _port("dlrm", TENSORFLOW, own_scaling=True),
    "dreamer": _port("dreamer", TENSORFLOW),
    "dreamer_v2": _port("dreamer_v2", TENSORFLOW),
    "efficientdet": _port("efficientdet", TENSORFLOW),
    "efficientdet_stock_policy": _port("efficientdet", TENSORFLOW, stock_policy=True),
    "gan": _port("gan", TENSORFLOW),
    "gan_positional": _port("gan", TENSORFLOW, positional=True),
    "nvidia_unet": _port("nvidia_unet", TENSORFLOW),
    "nvidia_unet_warmup": _port("nvidia_unet", TENSORFLOW, warmup=True),
    "resnet": _port("resnet", EVERYWHERE),
    "segmentation": _port("segmentation", EVERYWHERE),
    "text_rnn": _port("text_rnn", EVERYWHERE),
    "transformer": _port("transformer", EVERYWHERE),
    "unet3d": _port("unet3d", EVERYWHERE),
}


def run(name):
    """Run a port; return its losses, loss scales, and weights before and after."""
    port = PORTS[name]
    program = importlib.import_module("programs." + port.program)
    return program.run(**port.arguments)
