"""What each backend does its own way, and at what price."""

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import ops

from keras_policies import DynamicLossScale, LossScaleOptimizer
from keras_policies._common import memory as aligned
from keras_policies.backends import NAMES
from keras_policies.backends.protocol import Backend
from keras_policies.backends.running import backend
from keras_policies.loss_scaling.gradients import in_dtypes_of

BACKEND = keras.backend.backend()
on_torch = pytest.mark.skipif(BACKEND != "torch", reason="`.grad` is torch's")
on_jax = pytest.mark.skipif(BACKEND != "jax", reason="the guard is jax's")
on_tensorflow = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="graphs of TensorFlow"
)

# Alone and in numbers, small and large, of each rank.
SHAPES = [(), (), (3,), (2, 2), (2, 2), (3, 5, 2), (70, 30), (1,)]


def compiled(function):
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    return function


def test_the_backend_of_keras_is_the_one_that_runs():
    assert BACKEND in NAMES
    assert type(backend).__module__ == f"keras_policies.backends.{BACKEND}"


class OnlyGradients(Backend):
    """A new backend, with no more than it must have."""

    def gradients(self, function, values):
        return []


def test_a_new_backend_has_only_gradients_to_write():
    stub = OnlyGradients()
    variable = keras.Variable([2.0, 4.0])
    gradients = [ops.convert_to_tensor([8.0, 16.0]), ops.convert_to_tensor(24.0)]
    with stub.unscaled_in_step(gradients, [variable] * 2, 8.0, True) as found:
        made = [ops.convert_to_numpy(gradient).tolist() for gradient in found.make()]
        assert (made, bool(found.finite)) == ([[1.0, 2.0], 3.0], True)
    assert not stub.all_finite([ops.convert_to_tensor([1.0, np.nan])])
    held = stub.run_if(found.finite, lambda: variable.assign([0.0, 1.0]), list)
    stub.update([variable], lambda value: [value + 1])
    assert (held, variable.numpy().tolist()) == (np.bool_(True), [1.0, 2.0])
    assert not stub.is_constant(variable.value)
    with stub.read_once(lambda: [variable]):
        assert stub.place(np.ones(2)).tolist() == [1.0, 1.0]
    assert stub.zeros((2, 1), np.dtype("float16")).tolist() == [[0.0], [0.0]]


def test_gradients_are_cast_to_the_dtypes_of_their_variables():
    variables = [keras.Variable([1.0, 2.0], dtype=d) for d in ("float32", "float16")]
    gradients = [ops.convert_to_tensor([8.0, 2.0**-24], "float16"), None]
    half, nothing = in_dtypes_of(variables, gradients)
    assert keras.backend.standardize_dtype(half.dtype) == "float32"
    assert ops.convert_to_numpy(half).tolist() == [8.0, 2.0**-24]
    assert nothing is None
    full = ops.convert_to_tensor([8.0, 1e-3], "float32")
    same, cast = in_dtypes_of(variables, [full, full])
    assert same is full
    assert keras.backend.standardize_dtype(cast.dtype) == "float16"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (5, 7)])
def test_zeros_have_the_shape_and_the_dtype_that_a_variable_asks_for(shape, dtype):
    found = np.asarray(backend.zeros(shape, np.dtype(dtype)))
    assert (found.shape, found.any()) == (shape, False)
    assert found.dtype == np.asarray(backend.place(np.zeros(shape, dtype))).dtype


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_jax_and_torch_take_aligned_memory_without_a_copy(dtype):
    array = aligned.zeros((5, 7), np.dtype(getattr(ml_dtypes, dtype, dtype)))
    array[...] = 3
    placed = backend.place(array)
    assert keras.backend.standardize_dtype(placed.dtype) == dtype
    assert ops.convert_to_numpy(placed).astype("float32").tolist() == [[3.0] * 7] * 5
    pointer = {"jax": "unsafe_buffer_pointer", "torch": "data_ptr"}.get(BACKEND)
    assert pointer is None or getattr(placed, pointer)() == array.ctypes.data


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", range(len(SHAPES)))
def test_a_single_number_that_is_not_finite_is_found(place, bad):
    gradients = [np.full(shape, 3e38, "float32") for shape in SHAPES]
    check = compiled(lambda *values: backend.all_finite(values))
    assert bool(check(*map(ops.convert_to_tensor, gradients)))
    gradients[place].flat[-1:] = bad
    assert not bool(check(*map(ops.convert_to_tensor, gradients)))


@on_jax
def test_a_hundred_small_gradients_are_reduced_as_one():
    import jax

    gradients = [ops.ones(()) for _ in range(100)]
    steps = jax.make_jaxpr(lambda *values: backend.all_finite(values))(*gradients)
    assert 0 < str(steps).count("reduce_and[") <= 2


DEVICES = ["here", "elsewhere"] if BACKEND == "tensorflow" else ["here"]


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """Choose among the ways of TensorFlow that of another device than a CPU too."""
    if request.param == "elsewhere":
        from keras_policies.backends import tensorflow

        monkeypatch.setattr(tensorflow, "_is_cpu", lambda: False)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("number", "scale", "finite"),
    [
        pytest.param(1.0, 8.0, True, id="small"),
        pytest.param(3e38, 1.0, True, id="too-large-to-be-added"),
        pytest.param(1e38, 0.5, True, id="scale-below-one"),
        pytest.param(3e38, 0.5, False, id="quotient-out-of-range"),
        pytest.param(np.inf, 8.0, False, id="inf"),
        pytest.param(np.nan, 0.5, False, id="nan"),
    ],
)
def test_it_is_the_quotients_that_are_checked(number, scale, finite):
    values = [np.full(shape, number, "float32") for shape in SHAPES]
    variables = [keras.Variable(value) for value in values]

    def check(scale, *gradients):
        with backend.unscaled_in_step(gradients, variables, scale, True) as found:
            return found.finite, found.make()

    tensors = map(ops.convert_to_tensor, [np.float32(scale), *values])
    found, divided = compiled(check)(*tensors)
    assert bool(found) == finite
    with np.errstate(over="ignore"):
        for quotient, value in zip(divided, values, strict=True):
            expected = value / np.float32(scale)
            np.testing.assert_array_equal(ops.convert_to_numpy(quotient), expected)


@on_tensorflow
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_xla_does_not_take_the_check_for_a_constant(bad):
    import tensorflow as tf

    check = tf.function(lambda x: backend.all_finite([x]), jit_compile=True)
    assert check(tf.constant([1.0, 2.0]))
    assert not check(tf.constant([1.0, bad]))


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("good_steps", [0, 3, 4, 9])
@pytest.mark.parametrize("scale", [1.0, 3.0, 2.0**20, 3e38])
@pytest.mark.parametrize(
    "rule",
    [
        DynamicLossScale(8, 5),
        DynamicLossScale(8, 5, 1.1, minimum=2.5, maximum=2.0**20),
        DynamicLossScale(8, 1, 3),
    ],
)
def test_a_rule_gives_on_the_host_what_it_gives_on_tensors(
    rule, scale, good_steps, finite
):
    on_host = rule.after_step(np.float32(scale), np.int32(good_steps), np.bool_(finite))
    arguments = (
        ops.convert_to_tensor(scale, "float32"),
        ops.convert_to_tensor(good_steps, "int32"),
        ops.convert_to_tensor(finite),
    )
    for after_step in rule.after_step, compiled(rule.after_step):
        tensors = after_step(*arguments)
        assert [float(x) for x in on_host] == [float(x) for x in tensors]


def backward(loss_of, variables):
    """Return the `.grad`s of torch variables."""
    loss_of(*(variable.value for variable in variables)).backward()
    return [variable.value.grad for variable in variables]


@on_torch
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("bad", [1.0, np.inf])
def test_a_grad_is_what_it_was_after_the_step(bad, fails, monkeypatch):
    variables = [keras.Variable([1.0, 2.0]), keras.Variable(3.0)]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(64))
    gradients = backward(lambda x, y: (64 * x * y).sum() * bad, variables)
    before = [gradient.clone() for gradient in gradients]
    if fails:
        monkeypatch.setattr(optimizer.inner_optimizer, "_clip_gradients", None)
    if fails and np.isfinite(bad):
        with pytest.raises(TypeError, match="not callable"):
            optimizer.apply(gradients, variables)
    else:
        optimizer.apply(gradients, variables)
        wanted = [[-2.0, -1.0], 0.0] if np.isfinite(bad) else [[1.0, 2.0], 3.0]
        assert [variable.numpy().tolist() for variable in variables] == wanted
    for gradient, old, variable in zip(gradients, before, variables, strict=True):
        assert variable.value.grad is gradient
        assert gradient.tolist() == old.tolist()


@on_torch
def test_grads_that_share_memory_are_divided_once():
    variables = [keras.Variable([[1.0, 2.0]]), keras.Variable([[3.0], [4.0]])]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 16)
    gradients = backward(
        lambda a, b: 16 * ((a.reshape(2) + b.reshape(2)) ** 2).sum() / 2, variables
    )
    assert gradients[0].data_ptr() == gradients[1].data_ptr()
    optimizer.apply(gradients, variables)
    assert [v.numpy().ravel().tolist() for v in variables] == [
        [-3.0, -4.0],
        [-1.0, -2.0],
    ]
    assert gradients[0].ravel().tolist() == [64.0, 96.0]


@on_torch
def test_grads_that_overlap_are_divided_once():
    import torch

    memory = torch.tensor([16.0, 32.0, 48.0])
    variables = [keras.Variable([0.0, 0.0]) for _ in range(2)]
    gradients = [memory[:2], memory[1:]]
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.value.grad = gradient
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 16)
    optimizer.apply(gradients, variables)
    assert [v.numpy().tolist() for v in variables] == [[-1.0, -2.0], [-2.0, -3.0]]
    assert memory.tolist() == [16.0, 32.0, 48.0]


@on_torch
@pytest.mark.parametrize("kind", ["sparse", "float16", "float64", "transposed"])
def test_other_grads_are_divided_into_new_memory(kind):
    import torch

    gradient = {
        "sparse": torch.tensor([[8.0, 0.0], [0.0, 16.0]]).to_sparse(),
        "float16": torch.tensor([[8.0, 0.0], [0.0, 16.0]], dtype=torch.float16),
        "float64": torch.tensor([[8.0, 0.0], [0.0, 16.0]], dtype=torch.float64),
        "transposed": torch.tensor([[8.0, 0.0], [0.0, 16.0]]).T,
    }[kind]
    variable = keras.Variable(np.ones((2, 2)), dtype="float32")
    scale = torch.tensor(8.0)
    with backend.unscaled_in_step([gradient], [variable], scale, True) as found:
        (divided,) = found.make()
        assert divided.to_dense().tolist() == [[1.0, 0.0], [0.0, 2.0]]
        assert divided.dtype == (torch.float64 if kind == "float64" else torch.float32)
        assert found.finite
    assert gradient.to_dense().tolist() == [[8.0, 0.0], [0.0, 16.0]]


@on_torch
@pytest.mark.parametrize(("indices", "finite"), [([0, 0], False), ([0, 1], True)])
def test_float16_items_of_one_index_are_added_up_in_float16(indices, finite):
    import torch

    items = torch.tensor([64000.0, 64000.0], dtype=torch.float16)
    gradient = torch.sparse_coo_tensor([indices], items, (2,), check_invariants=True)
    variable = keras.Variable([1.0, 2.0], dtype="float16")
    scale = torch.tensor(8.0)
    with backend.unscaled_in_step([gradient], [variable], scale, True) as found:
        assert bool(found.finite) is finite


def reads_of_the_host(step):
    """Return how often a step reads the value of a tensor, for which a GPU waits."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            Counter.count += function is torch.ops.aten._local_scalar_dense.default
            return function(*args, **(kwargs or {}))

    with Counter():
        step()
    return Counter.count


@on_torch
@pytest.mark.parametrize(("loss_scale", "reads"), [("dynamic", 1), (64, 0)])
def test_a_step_reads_from_the_device_no_more_than_grad_scaler(loss_scale, reads):
    import torch

    value = torch.nn.Parameter(torch.ones(3))
    adam, scaler = torch.optim.Adam([value]), torch.amp.GradScaler("cpu")

    def theirs():
        scaler.scale(value.sum()).backward()
        scaler.step(adam)
        scaler.update()

    variable = keras.Variable(np.ones(3), dtype="float32")
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), loss_scale)

    def ours():
        optimizer.scale_loss(variable.value.sum()).backward()
        optimizer.apply([variable.value.grad], [variable])

    ours()
    theirs()
    assert reads_of_the_host(ours) == reads <= reads_of_the_host(theirs)


def fitted(loss_scale, jit_compile="auto"):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), loss_scale)
    model.compile(optimizer, "mse", jit_compile=jit_compile)
    model.train_on_batch(np.ones((2, 4)), np.ones((2, 2)))
    return model


@on_jax
def test_a_jitted_step_never_reads_from_the_device():
    import jax

    model = fitted("dynamic")
    batch = jax.device_put((np.ones((2, 4), "float32"), np.ones((2, 2), "float32")))
    optimizer_state = [variable.value for variable in model.optimizer.variables]
    state = (
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
        optimizer_state,
        [variable.value for variable in model.metrics_variables],
    )
    with jax.transfer_guard("disallow"):
        _, state = model.train_function(state, iter([batch]))
    applied = model.optimizer.inner_optimizer.variables[0]
    place = [v.path for v in model.optimizer.variables].index(applied.path)
    assert int(state[2][place]) == 2


@on_tensorflow
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_step_in_a_graph_never_calls_back_to_python(jit_compile):
    import tensorflow as tf

    model = fitted("dynamic", jit_compile)
    batch = tf.ones((2, 4)), tf.ones((2, 2))
    graph = tf.function(model.train_step).get_concrete_function(batch).graph
    kinds = {operation.type for operation in graph.get_operations()}
    kinds |= {
        node.op for f in graph.as_graph_def().library.function for node in f.node_def
    }
    assert "AssignAddVariableOp" in kinds
    assert not {kind for kind in kinds if "PyFunc" in kind or "Callback" in kind}


def reads_of_integers(count, loss_scale):
    """Return how often a graph that updates `count` variables reads an integer one."""
    import tensorflow as tf

    variables = [keras.Variable(1.0) for _ in range(count)]
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), loss_scale)
    optimizer.build(variables)
    apply = tf.function(lambda: optimizer.apply([tf.ones(())] * count, variables))
    graph = apply.get_concrete_function().graph.as_graph_def()
    functions = [function.node_def for function in graph.library.function]
    reads = [
        tf.as_dtype(node.attr["dtype"].type).is_integer
        for nodes in [graph.node, *functions]
        for node in nodes
        if node.op == "ReadVariableOp"
    ]
    return sum(reads)


@pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")
@on_tensorflow
@pytest.mark.parametrize("loss_scale", ["dynamic", 8])
def test_a_graph_reads_the_iterations_once_for_all_variables(loss_scale):
    assert reads_of_integers(9, loss_scale) == reads_of_integers(2, loss_scale) > 0


@pytest.mark.parametrize("is_compiled", [True, False])
def test_what_is_read_once_is_read_again_after_it_is_written(is_compiled):
    if BACKEND == "jax" and is_compiled:
        pytest.skip("jax assigns to no variable inside a compiled function")
    variable = keras.Variable(1.0)

    def step():
        with backend.read_once(lambda: [variable]):
            before = variable.value + 0.0
            variable.assign(variable * 3)
            between = variable.value + 0.0
            variable.assign_add(1.0)
            return before, between, variable.value + 0.0

    values = (compiled(step) if is_compiled else step)()
    assert [ops.convert_to_numpy(value) for value in values] == [1, 3, 4]
    assert variable.numpy() == 4
