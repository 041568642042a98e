"""The whole machine in numpy: a loss scale, an optimizer, and what a step does.

Written from the documented formulas, in float64 where the machine has float32; only the
scale is float32, for it is to agree exactly. Formulas: Keras's docs of SGD, Adam and
`Optimizer`; of Adam those of Kingma and Ba, 2014, section 2, with its last trick.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a machine is made of; the names are those of Keras and of this package."""

    # (class, its arguments)
    optimizer: tuple = ("SGD", {})
    # None in place of the period: a fixed scale
    initial_loss_scale: float = 2.0**15
    increment_period: int | None = 2000
    multiplier: float = 2.0
    minimum: float = 1.0
    maximum: float = float(np.finfo("float32").max)
    # Arguments of every optimizer
    options: dict = dataclasses.field(default_factory=dict)
    # (boundary, value before and up to it, value after it), or a number
    learning_rate: tuple | float = 0.1


class Machine:
    """Steps of training on given gradients.

    Args:
        settings: `Settings`.
        values: list of arrays, the variables' first values.
    """

    def __init__(self, settings, values):
        self.settings = settings
        self.variables = [np.array(value, "float64") for value in values]
        zeros = [np.zeros_like(value) for value in self.variables]
        self.slots = {name: [z.copy() for z in zeros] for name in ("m", "v")}
        self.averages = [z.copy() for z in zeros]
        self.accumulated = [z.copy() for z in zeros]
        self.scale = np.float32(settings.initial_loss_scale)
        self.good_steps = self.skipped = self.iterations = 0

    def step(self, scaled):
        """Train on the gradients of the scaled loss."""
        with np.errstate(over="ignore"):
            divided = [np.float32(gradient) / self.scale for gradient in scaled]
        finite = all(np.isfinite(gradient).all() for gradient in divided)
        if finite or self.settings.increment_period is None:
            self._apply([np.float64(g) / np.float64(self.scale) for g in scaled])
        else:
            self.skipped += 1
        if self.settings.increment_period is not None:
            self.move_scale(finite)

    def finish(self):
        """End training: where weights are averaged, the averages become the weights."""
        if self.settings.options.get("use_ema") and self.iterations:
            self.variables = [average.copy() for average in self.averages]

    def move_scale(self, finite):
        """Move the scale after a step, by whether it was finite."""
        multiplier = np.float32(self.settings.multiplier)
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            lowered = self.scale / multiplier
            self.scale = max(lowered, np.float32(self.settings.minimum))
        elif self.good_steps == self.settings.increment_period:
            self.good_steps = 0
            with np.errstate(over="ignore"):
                grown = self.scale * multiplier
            if np.isfinite(grown):
                self.scale = min(grown, np.float32(self.settings.maximum))

    def _apply(self, gradients):
        options = self.settings.options
        every = self._accumulation_steps()
        totals = [a + g for a, g in zip(self.accumulated, gradients, strict=True)]
        if (self.iterations + 1) % every:
            self.accumulated = totals
        else:
            self.accumulated = [np.zeros_like(total) for total in totals]
            self._update(self._clipped([total / every for total in totals]))
        if options.get("use_ema"):
            self._average(options["ema_momentum"], options["ema_overwrite_frequency"])
        self.iterations += 1

    def _accumulation_steps(self):
        return self.settings.options.get("gradient_accumulation_steps") or 1

    def _updates(self):
        """Return what Keras calls `iterations`: those that updated a variable."""
        return self.iterations // self._accumulation_steps()

    def _clipped(self, gradients):
        options = self.settings.options
        if limit := options.get("clipvalue"):
            return [np.clip(g, -limit, limit) for g in gradients]
        if limit := options.get("clipnorm"):
            norms = [np.sqrt(np.sum(g**2)) for g in gradients]
        elif limit := options.get("global_clipnorm"):
            norms = [np.sqrt(sum(np.sum(g**2) for g in gradients))] * len(gradients)
        else:
            return gradients
        pairs = zip(gradients, norms, strict=True)
        return [g * limit / max(norm, limit) for g, norm in pairs]

    def _update(self, gradients):
        name, arguments = self.settings.optimizer
        decay = self.settings.options.get("weight_decay") or 0
        for i, gradient in enumerate(gradients):
            self.variables[i] -= self.variables[i] * decay * self._learning_rate()
            update = {"SGD": self._sgd, "Adam": self._adam}[name]
            self.variables[i] += update(i, gradient, **arguments)

    def _learning_rate(self):
        rate = self.settings.learning_rate
        if not isinstance(rate, tuple):
            return rate
        boundary, before, after = rate
        return before if self.iterations <= boundary else after

    def _sgd(self, i, gradient, momentum=0.0, nesterov=False):
        m = momentum * self.slots["m"][i] - self._learning_rate() * gradient
        self.slots["m"][i] = m
        return momentum * m - self._learning_rate() * gradient if nesterov else m

    def _adam(self, i, gradient, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        m = beta_1 * self.slots["m"][i] + (1 - beta_1) * gradient
        v = beta_2 * self.slots["v"][i] + (1 - beta_2) * gradient**2
        self.slots["m"][i], self.slots["v"][i] = m, v
        t = self._updates() + 1
        alpha = self._learning_rate() * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        return -alpha * m / (np.sqrt(v) + epsilon)

    def _average(self, momentum, overwrite_frequency):
        kept = momentum if self._updates() else 0
        pairs = zip(self.averages, self.variables, strict=True)
        self.averages = [kept * a + (1 - kept) * v for a, v in pairs]
        if overwrite_frequency and not (self._updates() + 1) % overwrite_frequency:
            self.variables = [average.copy() for average in self.averages]
