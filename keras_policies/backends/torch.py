"""torch: one kernel for all gradients, the one that `torch.amp.GradScaler` launches."""

import collections
import contextlib
import itertools
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
import torch

from keras_policies import keras_internals
from keras_policies._common.types import Tensor, Tensors, Variables
from keras_policies.backends.protocol import (
    Backend,
    Floats,
    Rule,
    ScalarFunction,
    StepGradients,
)

# Devices that have the kernel: torch/amp/grad_scaler.py.
DEVICES = {"cpu", "cuda"}
WIDE = {torch.float32, torch.float64}
KIND = operator.attrgetter("device", "dtype", "layout")
ByDevice: TypeAlias = dict[torch.device, list[Tensor]]


class TorchBackend(Backend):
    """torch: fused kernels, `.grad`s divided in place, and scalars on the CPU."""

    def unscale(self, gradients: Tensors, scale: Tensor) -> list[Tensor]:
        # A torch scalar never widens a torch tensor.
        gradients = [g if g.dtype in WIDE else _widened(g) for g in gradients]
        if {gradient.layout for gradient in gradients} == {torch.strided}:
            return list(torch._foreach_div(gradients, scale))
        return [torch.div(gradient, scale) for gradient in gradients]

    @contextlib.contextmanager
    def unscaled_in_step(
        self, gradients: Tensors, variables: Variables, scale: Tensor, check: bool
    ) -> Iterator[StepGradients]:
        # Each `.grad` of a variable is divided in place, and multiplied back at the
        # end: the system would give new memory of that size to each step, which takes
        # longer than all the rest.
        in_place, covered = _in_place(gradients, variables)
        rest = self.unscale([g for g in gradients if id(g) not in covered], scale)
        others = iter(rest)
        divided = [g if id(g) in covered else next(others) for g in gradients]
        # Not every device has float64; those that have the kernel do.
        overflows = _multiply(in_place, 1 / scale.double()) if in_place else []
        try:
            finite = self._finite(rest, overflows) if check else None
            yield StepGradients(lambda: divided, finite)
        finally:
            _multiply(in_place, scale)

    def _finite(self, gradients: Tensors, overflows: Tensors) -> Tensor | None:
        """Return whether our own tensors are finite, and nothing overflowed."""
        checks = [overflow == 0 for overflow in overflows]
        for (device, _, layout), group in _grouped(gradients).items():
            if device.type in DEVICES and layout == torch.strided:
                # The kernel multiplies what it checks.
                (overflow,) = _multiply({device: group}, torch.ones((), device=device))
                checks.append(overflow == 0)
            else:
                is_sparse = layout == torch.sparse_coo
                numbers = [g.coalesce().values() if is_sparse else g for g in group]
                checks.append(self.all_finite(numbers))
        if len(checks) < 2:
            return checks[0] if checks else None
        return torch.stack([check.to(checks[0].device) for check in checks]).all()

    def update(self, variables: Variables, rule: Rule) -> None:
        # Where no device has to be waited for, the arithmetic is NumPy's: one operation
        # on a tensor takes as long as the whole rule.
        values = [variable.value for variable in variables]
        if any(value.device.type != "cpu" for value in values):
            super().update(variables, rule)
            return
        before = [value.numpy()[()] for value in values]
        for variable, old, new in zip(variables, before, rule(*before), strict=True):
            if not isinstance(new, np.ndarray | np.generic) or new != old:
                variable.assign(new)

    def version(self, tensor: Tensor) -> int:
        return 0 if tensor.is_inference() else int(tensor._version)

    def watch(self, variables: Variables) -> Callable[[Tensors], bool]:
        # The number right after the pass has to be known: autograd itself adds up the
        # gradients of a weight that is used twice in place.
        versions: dict[int, tuple[weakref.ref[Tensor], int]] = {}

        def note(weight: Tensor) -> None:
            gradient = weight.grad
            versions[id(gradient)] = weakref.ref(gradient), self.version(gradient)

        def is_changed(gradient: Tensor) -> bool:
            reference, version = versions.get(id(gradient), (None, 0))
            is_known = reference is not None and reference() is gradient
            return is_known and self.version(gradient) != version

        def changed(gradients: Tensors) -> bool:
            for hook in hooks:
                hook.remove()
            return any(map(is_changed, gradients))

        weights = map(keras_internals.raw_value, variables)
        # DistributedDataParallel averages gradients in place after the hooks.
        is_watching = not (torch.compiler.is_compiling() or _is_distributed())
        hooks = [
            weight.register_post_accumulate_grad_hook(note)
            for weight in weights
            if is_watching and weight.is_leaf and weight.requires_grad
        ]
        return changed

    def place(self, array: npt.NDArray[Any]) -> Tensor:
        # Keras would copy it twice, and bfloat16, which torch does not take from numpy,
        # by way of float32.
        if array.dtype.name != "bfloat16":
            return torch.from_numpy(array)
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)

    def outputs(self, model: keras.Model, inputs: Any) -> list[npt.NDArray[Any]]:
        with torch.no_grad():
            return super().outputs(model, inputs)

    def gradients(self, function: ScalarFunction, values: list[Tensor]) -> list[Floats]:
        # No `.grad` is touched. Keras's dropout draws from torch's own generators:
        # afterwards they are as before.
        values = [value.detach().requires_grad_() for value in values]
        devices = {value.device for value in values if value.device.type == "cuda"}
        with torch.random.fork_rng(devices):
            result = function(values)
            gradients = torch.autograd.grad(result, values, materialize_grads=True)
        return [g.to("cpu", torch.float32).numpy() for g in gradients]


backend: Backend = TorchBackend()


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _widened(gradient: Tensor) -> Tensor:
    # Items of one index are added up first, as a dense gradient adds them: the sum may
    # overflow in float16. `torch.amp.GradScaler` does so, too.
    return (gradient.coalesce() if gradient.is_sparse else gradient).float()


def _in_place(gradients: Tensors, variables: Variables) -> tuple[ByDevice, set[int]]:
    """Return `{device: tensors}` to divide in place, and the ids of all they stand for.

    autograd lets `.grad`s share memory, as those of `(a.flatten() + b.flatten())**2`
    do: one of them stands for all.
    """
    values = map(keras_internals.raw_value, variables)
    stored = [g for g, v in zip(gradients, values, strict=True) if g is v.grad]
    in_place: ByDevice = {}
    covered: set[int] = set()
    for (device, dtype, layout), group in _grouped(stored).items():
        # The factor of the kernel is float32 too.
        if device.type in DEVICES and (dtype, layout) == (torch.float32, torch.strided):
            dense = [gradient for gradient in group if gradient.is_contiguous()]
            places = {(tensor.data_ptr(), tensor.nbytes): tensor for tensor in dense}
            if not _overlap(places):
                in_place[device] = list(places.values())
                covered.update(map(id, dense))
    return in_place, covered


def _overlap(places: dict[tuple[int, int], Tensor]) -> bool:
    pairs = itertools.pairwise(sorted(places))
    return any(start + size > following for (start, size), (following, _) in pairs)


def _grouped(gradients: Tensors) -> dict[Any, list[Tensor]]:
    """Return `{(device, dtype, layout): gradients}`: the kernel takes such a group."""
    groups = collections.defaultdict(list)
    for kind, gradient in zip(map(KIND, gradients), gradients, strict=True):
        groups[kind].append(gradient)
    return groups


def _multiply(gradients: ByDevice, factor: Tensor) -> list[Tensor]:
    """Multiply `{device: tensors}`; return float scalars, 1 where not all is finite."""
    overflows = []
    with torch.no_grad():
        for device, group in gradients.items():
            overflow = torch.zeros((), device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(
                group, overflow, factor.to(overflow)
            )
            overflows.append(overflow)
    return overflows
