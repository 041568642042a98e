"""An op gives the same for tensors and constants, for known and unknown sizes.

The cases are the calls of op layers in all H5 files, and of all recorded nodes. Nothing
is compared with TensorFlow here: the other tests of these files do that.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import keras
import legacy_files
import numpy as np
import pytest
import recorded_nodes

import keras_policies
from keras_policies.legacy.ops import registry, table
from keras_policies.legacy.ops.complex_pairs import Complex
from keras_policies.legacy.values import axis_lengths, computed, dims, ratios
from keras_policies.legacy.values.evaluator import has_dims, is_tensor
from keras_policies.legacy.values.evaluator import tensor as as_tensor
from keras_policies.legacy.values.shapes import shape_of

RANDOM = "random", "nn.dropout", "nn.experimental.stateless_dropout"
# Its constant argument has an item for each row of a batch of four.
FOR_FOUR = ("dynamic_partition",)
# jax compiles each op for each shape, which takes a minute for half of the cases.
IS_THOROUGH = keras.backend.backend() != "jax"
# Ops that need a size which only the model's input tells, and say so.
REFUSED = {
    "ScaleAndTranslate",
    "StridedSliceGrad",
    "gather_nd",
    "image.central_crop",
    "image.combined_non_max_suppression",
    "image.extract_patches",
    "image.pad_to_bounding_box",
    "image.resize",
    "image.resize_with_crop_or_pad",
    "nn.max_pool_with_argmax",
    "signal.fft2d",
    "signal.frame",
    "signal.stft",
    "strided_slice",
    "unstack",
}
# How many items each known length behind the batch may get more, by rank and axis.
GROWTHS = (
    lambda axis, rank: axis > 0,
    lambda axis, rank: 0 < axis < rank - 1,
    lambda axis, rank: False,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A call of an op, with the tensors that it was recorded with."""

    op: registry.Op
    arguments: Mapping[str, Any]

    @property
    def name(self):
        nodes = (name for name, (op, _) in registry.NODES.items() if op is self.op)
        return self.op.name or next(nodes)

    @property
    def leaves(self):
        # A list: on torch, Keras goes through a dict in two orders.
        leaves = keras.tree.flatten([*self.arguments.values()])
        pairs = (x.sources if isinstance(x, Complex) else [x] for x in leaves)
        return [*itertools.chain.from_iterable(pairs)]

    @property
    def tensors(self):
        return [leaf for leaf in self.leaves if is_tensor(leaf)]

    def arrays(self, batch, more, growth):
        """Return arrays for the tensors, and the length of each unknown axis by key."""
        lengths = collections.defaultdict(lambda: 4 + more, {dims.BATCH: batch})
        draw, arrays = np.random.default_rng(1), []
        for one in self.tensors:
            shape = [dims.evaluate(n, lengths) for n in shape_of(one)]
            for axis, n in enumerate(one.shape):
                if n is not None and n > 1:
                    shape[axis] += more * growth(axis, len(shape))
            if "float" in one.dtype:
                array = draw.uniform(-0.9, 1.9, shape)
            else:
                array = draw.integers(1 if one.dtype != "bool" else 0, 3, shape)
            if "crossentropy" in self.name:  # torch checks that these are shares
                array = array % 1
            if self.name == "linalg.cholesky":
                array = array @ array.swapaxes(-1, -2) + np.eye(shape[-1])
            arrays.append(array.astype(one.dtype))
        return arrays, lengths

    @functools.cached_property
    def sizes(self):
        """list, `(arrays, lengths, outputs)` at up to two batch sizes and lengths."""
        found = []
        for more, growths in ((0, GROWTHS[2:]), (1, GROWTHS)):
            for growth, batch in itertools.product(growths, (3, 4, 2, 6, 12)):
                if found and batch == found[0][1][dims.BATCH]:
                    continue
                with contextlib.suppress(Exception):  # each backend has its own
                    arrays = self.arrays(batch, more, growth)
                    found.append((*arrays, self.outcome(*arrays)))
                    break
        return found

    def outcome(self, arrays, lengths, constants=(), is_known=True):
        """Return what the op gives, where these inputs are constants."""
        given, values = [], []
        for position, (array, old) in enumerate(zip(arrays, self.tensors, strict=True)):
            if position in constants:
                values.append(array)
            else:
                pair, value = as_input(array, old, is_known)
                given.append(pair)
                values.append(value)
        sizes = lengths if is_known else self.symbols(lengths, given, values)
        rest = iter(values)

        def replaced(leaf):
            if isinstance(leaf, Complex):
                return table.call("complex", [next(rest), next(rest)], {})
            if is_tensor(leaf):
                return next(rest)
            if not has_dims(leaf):
                return leaf
            items = [dims.evaluate(n, sizes) for n in np.ravel(leaf)]
            return computed.reshape(computed.vector(items), np.shape(leaf))

        found = keras.tree.map_structure(replaced, [*self.arguments.values()])
        arguments = dict(zip(self.arguments, found, strict=True))
        return run(given, self.op.call((), arguments))

    def symbols(self, lengths, given, values):
        """Return the unknown axes of the inputs, by the keys of the recorded ones."""
        sizes = {}
        for old, new in zip(self.tensors, values, strict=True):
            for recorded, own in zip(shape_of(old), shape_of(new), strict=True):
                for axis in axis_lengths.axes_in(recorded):
                    if dims.Dim({(axis,): 1}) == recorded:
                        sizes[axis.key] = own
        for leaf in filter(has_dims, self.leaves):
            for axis in axis_lengths.axes_in(leaf):
                if axis.key not in sizes:  # the axis of no argument
                    line = keras.Input(batch_shape=(None, None))
                    sizes[axis.key] = shape_of(line)[axis.key != dims.BATCH]
                    shape = lengths[dims.BATCH], lengths[axis.key]
                    given.append((line, np.zeros(shape, "float32")))
        return sizes


def as_input(array, old, is_known):
    """Return `(input of a model, array)`, and a tensor of it in the array's shape.

    The first axis of an input is the batch. One that was not is the second of an input.
    """
    shape = array.shape if is_known else (None,) * array.ndim
    is_batch = bool(shape) and shape_of(old)[0] == axis_lengths.batch(old)
    if is_known or is_batch:
        made = keras.Input(batch_shape=shape, dtype=old.dtype)
        return (made, array), made
    made = keras.Input(batch_shape=(None, *shape), dtype=old.dtype)
    return (made, array[None]), made[0]


def parts(made):
    """Yield the tensors, or else arrays, that an op made."""
    for one in keras.tree.flatten(made):
        if isinstance(one, Complex):
            yield from one.sources
        elif isinstance(one, np.ndarray) and np.iscomplexobj(one):
            yield from (one.real, one.imag)
        else:
            yield as_tensor(one)


def run(given, made):
    """Return arrays of what an op made, for `[(input, array)]`."""
    nodes = [x for x in parts(made) if is_tensor(x)]
    inputs, arrays = map(list, zip(*given, strict=True)) if given else ([], [])
    model = keras.Model(inputs, nodes) if nodes else None
    outputs = iter(legacy_files.called(model, arrays) if nodes else [])
    found = (next(outputs) if is_tensor(x) else x for x in parts(made))
    return [np.asarray(keras.ops.convert_to_numpy(x)) for x in found]


def difference(case, wanted, *args, **kwargs):
    """Return in a word how a case's outcome is another, or None."""
    try:
        found = case.outcome(*args, **kwargs)
        assert [x.shape for x in found] == [x.shape for x in wanted]
        for one, other in zip(found, wanted, strict=True):
            # jax has no dtypes of 64 bits
            names = [x.dtype.name.replace("64", "32") for x in (one, other)]
            assert names[0] == names[1]
            limit = recorded_nodes.TOLERANCE.get(names[0], 2e-5)
            one, other = one.astype("float64"), other.astype("float64")
            np.testing.assert_allclose(one, other, limit, limit)
    except Exception as error:
        return type(error), f"{case.name} {case.arguments} {args[2:]}: {error}"
    return None, ""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Return all calls of ops that differ in op, names of arguments, or ranks."""
    archives = sorted((legacy_files.FOLDER / "ops").glob("*.tar.xz"))
    folder = legacy_files.unpacked(tmp_path_factory.mktemp("ops"), archives)
    found, call = {}, registry.Op.call

    def recording(op, args, kwargs):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(registry.Op, "call", call)
            output = call(op, args, kwargs)
        arguments = op.signature.bind(*args, **op._renamed(kwargs)).arguments
        case = Case(op, dict(arguments))
        ranks = [len(x.shape) for x in case.tensors]
        # A size as a float has no array to replay it with: test_lost has models of it.
        is_ratio = any(isinstance(x, ratios.Ratio) for x in arguments.values())
        if not case.name.startswith((*RANDOM, *FOR_FOUR)) and not is_ratio:
            found.setdefault((case.name, *arguments, *ranks), case)
        return output

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(registry.Op, "call", recording)
        for case in recorded_nodes.CASES.values():
            recorded_nodes.model_of(case)
        for path in sorted(folder.glob("*/*/model.h5")):
            with contextlib.suppress(keras_policies.LegacyModelError):
                keras_policies.load_model(path, compile=False)
    return [*found.values()][:: 1 if IS_THOROUGH else 2]


def subsets(count):
    """Yield all subsets of some positions but the empty one; few of many."""
    for size in range(1, count + 1) if count < 4 else (1, count):
        yield from itertools.combinations(range(count), size)


@pytest.mark.slow("every op at several sizes")
def test_constants_give_what_tensors_give(cases):
    failed = []
    for case in cases:
        *sizes, wanted = case.sizes[0]
        for constants in subsets(len(sizes[0])):
            kind, reason = difference(case, wanted, *sizes, constants)
            failed += [reason] if kind else []
    assert not failed, "\n".join(failed)


@pytest.mark.slow("every op at several sizes")
def test_unknown_sizes_give_what_known_ones_give(cases):
    failed, refused = [], set()
    for case in cases:
        for *sizes, wanted in case.sizes:
            kind, reason = difference(case, wanted, *sizes, is_known=False)
            is_refused = kind is not None and issubclass(kind, ValueError)
            refused |= {case.name} if is_refused else set()
            failed += [reason] if kind and not is_refused else []
    assert not failed, "\n".join(failed)
    assert refused <= REFUSED
    assert refused == REFUSED or not IS_THOROUGH
    assert sum(len(case.sizes) == 2 for case in cases) / len(cases) > 0.95
