"""torch: one kernel for all gradients, the one that `torch.amp.GradScaler` launches."""

import collections
import contextlib
import itertools
import operator

import numpy as np
import torch

from keras_policies import keras_internals
from keras_policies.backends import eager

# Devices that have the kernel: torch/amp/grad_scaler.py.
DEVICES = {"cpu", "cuda"}
WIDE = {torch.float32, torch.float64}
KIND = operator.attrgetter("device", "dtype", "layout")


def unscale(gradients, scale):
    """Return new tensors, each gradient divided by `scale`, in float32 or wider."""
    if not {gradient.dtype for gradient in gradients} <= WIDE:
        # A torch scalar never widens a torch tensor.
        gradients = [g if g.dtype in WIDE else g.to(torch.float32) for g in gradients]
    if {gradient.layout for gradient in gradients} == {torch.strided}:
        return list(torch._foreach_div(gradients, scale))
    return [torch.div(gradient, scale) for gradient in gradients]


@contextlib.contextmanager
def unscaled(gradients, variables, scale, check):
    """Yield what gives the divided gradients, and the check if asked for.

    Each `.grad` of a variable is divided where it lies, and multiplied back at the
    end: new memory of that size is dearer than the whole of the rest, as the system
    gives it anew to each step.
    """
    in_place, own = _in_place(gradients, variables)
    divided, rest = gradients, []
    if len(own) < len(gradients):
        ids = set(map(id, own))
        rest = unscale([g for g in gradients if id(g) not in ids], scale)
        made = iter(rest)
        divided = [g if id(g) in ids else next(made) for g in gradients]
    # Not every device has float64; those that have the kernel do.
    overflows = _multiply(in_place, 1 / scale.double()) if in_place else []
    try:
        yield lambda: divided, _finite(rest, overflows) if check else None
    finally:
        _multiply(in_place, scale)


def _in_place(gradients, variables):
    """Return `{device: tensors}` to divide in place, and the gradients that this does.

    autograd lets `.grad`s share memory, as those of `(a.flatten() + b.flatten())**2`
    do: one of them stands for all.
    """
    grads = [keras_internals.raw_value(variable).grad for variable in variables]
    held = [g for g, grad in zip(gradients, grads, strict=True) if g is grad]
    in_place, own = {}, []
    for (device, dtype, layout), group in _grouped(held).items():
        # The factor of the kernel is float32 too.
        if device.type in DEVICES and (dtype, layout) == (torch.float32, torch.strided):
            dense = [gradient for gradient in group if gradient.is_contiguous()]
            places = {(tensor.data_ptr(), tensor.nbytes): tensor for tensor in dense}
            if not _overlap(places):
                in_place[device] = list(places.values())
                own += dense
    return in_place, own


def _overlap(places):
    pairs = itertools.pairwise(sorted(places))
    return any(start + size > following for (start, size), (following, _) in pairs)


def _grouped(gradients):
    """Return `{(device, dtype, layout): gradients}`: the kernel takes such a group."""
    groups = collections.defaultdict(list)
    for kind, gradient in zip(map(KIND, gradients), gradients, strict=True):
        groups[kind].append(gradient)
    return groups


@torch.no_grad()
def _multiply(gradients, factor):
    """Multiply `{device: tensors}`; return float scalars, 1 where not all is finite."""
    overflows = []
    for device, group in gradients.items():
        overflow = torch.zeros((), device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(
            group, overflow, factor.to(overflow)
        )
        overflows.append(overflow)
    return overflows


def _finite(gradients, overflows):
    """Return whether tensors of our own making are finite, and nothing overflowed."""
    checks = [overflow == 0 for overflow in overflows]
    for (device, _, layout), group in _grouped(gradients).items():
        if device.type in DEVICES and layout == torch.strided:
            # The kernel multiplies what it checks.
            (overflow,) = _multiply({device: group}, torch.ones((), device=device))
            checks.append(overflow == 0)
        else:
            checks.append(eager.all_finite([_numbers(gradient) for gradient in group]))
    if len(checks) < 2:
        return checks[0] if checks else None
    return torch.stack([check.to(checks[0].device) for check in checks]).all()


def _numbers(gradient):
    is_sparse = gradient.layout == torch.sparse_coo
    return gradient.coalesce().values() if is_sparse else gradient


def update(variables, rule):
    """Assign to scalar variables what `rule` makes of their values.

    Where no device has to be waited for the arithmetic is NumPy's: an operation on a
    tensor takes as long as the whole of it.
    """
    values = [variable.value for variable in variables]
    if any(value.device.type != "cpu" for value in values):
        eager.update(variables, rule)
        return
    before = [value.numpy()[()] for value in values]
    for variable, old, new in zip(variables, before, rule(*before), strict=True):
        if not isinstance(new, np.ndarray | np.generic) or new != old:
            variable.assign(new)


def gradients(function, values):
    """Return the gradients of `function(values)`; no `.grad` is touched.

    Keras's dropout draws from torch's own generators: they are as before afterwards.
    """
    values = [value.detach().requires_grad_() for value in values]
    devices = {value.device for value in values if value.device.type == "cuda"}
    with torch.random.fork_rng(devices):
        taken = torch.autograd.grad(function(values), values, allow_unused=True)
    return [g.to("cpu", torch.float32).numpy() for g in taken if g is not None]
