"""Changes single nodes of SavedModels; compares what opens with the changed graph."""

import shutil
import tarfile
import warnings

import graphs
import keras
import legacy_files
import numpy as np

from keras_policies import LegacyModelError, load_model
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import UNEXPECTED
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import table
from keras_policies.legacy.plan.reconstruction import (
    concrete_functions,
    in_training,
    normalizations,
    own_gradients,
)
from keras_policies.legacy.plan.reconstruction.reference import Interpreter
from keras_policies.legacy.readers import readers
from keras_policies.legacy.readers.checkpoint import protos

FLOAT = 1  # the number of float32
KINDS = "clip", "minimum", "where", "scale", "abs", "sum"
BOUNDS = 0.7, 4.0, 20.0
SCALES, BATCHES, LENGTH = (1, 30, 1000), (2, 5), 6
OF_SIZES = {"Rank", "Shape", "ShapeN", "Size"}
OTHERS = {"ReadVariableOp", "TensorListGetItem", "Const"}
OF_FILES = "save", "restore"  # in the names of functions
STEP = 1e-4
WORK = 10**8  # the size of a file that explains what the comparison costs


def unpacked(path, folder, part):
    """Unpack the archives below a path with a part in their names; return models."""
    for number, archive in enumerate(sorted(path.rglob("*.tar.xz"))):
        if part in archive.name:
            with tarfile.open(archive) as opened:
                opened.extractall(folder / str(number), **legacy_files.AS_DATA)
    return sorted(file.parent for file in folder.rglob("saved_model.pb"))


def _types(node):
    return {a.key: a.value.type for a in node.attr if a.value.HasField("type")}


def _is_float(node):
    kinds = _types(node)
    kind = kinds.get("T", kinds.get("dtype", kinds.get("element_dtype")))
    is_known = node.op in table.NODES.keys() - OF_SIZES or node.op in OTHERS
    return is_known and kind == FLOAT and kinds.get("DstT", FLOAT) == FLOAT


def _functions(graph):
    stored = graph.library.function
    return [protos.parse("FunctionDef", function) for function in stored]


def _key(name):
    """Return the end of a node's name, which it has in each function."""
    return "/".join(name.split("/")[-2:])


def _fits(function, node, key, op):
    is_ours = not any(part in function.signature.name for part in OF_FILES)
    name = node.name
    return is_ours and node.op == op and (name == key or name.endswith(f"/{key}"))


def sites(path):
    """Return `(end of the node's name, op, kind, bound)` of all mutants of a model."""
    found = {}

    def look(meta_graph, graph):
        for function in _functions(graph):
            for node in function.node_def:
                is_ours = not any(p in function.signature.name for p in OF_FILES)
                # Each function ends with such a copy: changed in one and in those that
                # call it, it is another model in each, and no file says which.
                is_end = node.op == "Identity" and "/" not in node.name
                is_ours = is_ours and not is_end and "gradient" not in node.name
                if is_ours and _is_float(node):
                    found[_key(node.name).rpartition("/")[2], node.op] = node.name

    graphs.change_graph(path, look)
    return [
        (key, op, kind, BOUNDS[(i + j) % 3])
        for i, (key, op) in enumerate(sorted(found))
        for j, kind in enumerate(KINDS)
    ]


def mutate(path, key, op, kind, bound):
    """Add an op after a node, in each function that has it."""

    def change(meta_graph, graph):
        functions = _functions(graph)
        for function in functions:
            for node in [*function.node_def]:
                if _fits(function, node, key, op) and _is_float(node):
                    _insert(function, node, kind, bound)
        stored = [function.SerializeToString() for function in functions]
        graph.library.function[:] = stored

    graphs.change_graph(path, change)


def _insert(function, node, kind, bound):
    name, taken = node.name, []
    inputs = [(n, i) for n in function.node_def for i in range(len(n.input))]
    for other, i in inputs:
        if other.input[i].startswith(f"{name}:") and other.input[i].endswith(":0"):
            taken.append((other, i, other.input[i]))
    ends = [ret for ret in function.ret if ret.value.startswith(f"{name}:")]
    texts = {text for *_, text in taken} | {ret.value for ret in ends}
    if len(texts) != 1:
        return
    (x,) = texts
    result = _nodes(function, node, kind, bound, x)
    for other, i, _ in taken:
        other.input[i] = result
    for ret in ends:
        ret.value = result


def _nodes(function, node, kind, bound, x):
    """Add the nodes of a change; return the text of their result."""
    shapes = [attr for attr in node.attr if attr.key == "_output_shapes"]

    def add(op, *inputs, ending="z"):
        new = function.node_def.add()
        new.name = f"{node.name}_mutant_{len(function.node_def)}"
        new.op = op
        new.input.extend(inputs)
        kind = new.attr.add()
        kind.key, kind.value.type = "T", FLOAT
        for attr in shapes:
            new.attr.add().CopyFrom(attr)
        return f"{new.name}:{ending}:0"

    def constant(number):
        new = function.node_def.add()
        new.name, new.op = f"{node.name}_mutant_{len(function.node_def)}", "Const"
        dtype, value = new.attr.add(), new.attr.add()
        dtype.key, dtype.value.type, value.key = "dtype", FLOAT, "value"
        value.value.tensor.dtype = FLOAT
        value.value.tensor.float_val.append(number)
        return f"{new.name}:output:0"

    if kind == "clip":
        return add("Maximum", add("Minimum", x, constant(bound)), constant(-bound))
    if kind == "minimum":
        return add("Minimum", x, constant(bound))
    if kind == "where":
        is_large = add("Greater", x, constant(bound))
        return add("SelectV2", is_large, constant(bound), x, ending="output")
    if kind == "scale":
        return add("Mul", x, constant(1.001))
    return (
        add("Abs", x, ending="y") if kind == "abs" else add("AddV2", x, constant(0.01))
    )


class _Wide(Interpreter):
    """An interpreter that computes in float64."""

    widened = dict.fromkeys(("bfloat16", "float16", "float32"), "float64")


def _run(traced, trace, inputs):
    with np.errstate(all="ignore"):
        return _Wide(traced, is_wide=True).run(trace, inputs)


def _inputs(specs, batch, scale, seed=0):
    rng = np.random.default_rng(seed)
    arrays = []
    for spec in specs:
        first, *others = spec.shape
        shape = [first or batch, *(n or LENGTH for n in others)]
        drawn = rng.normal(size=shape) * scale
        if "float" not in spec.dtype:
            drawn = rng.integers(0, 2, shape)
        arrays.append(drawn.astype(spec.dtype))
    return arrays


def _differ(found, expected, share=1e-3):
    size = float(np.max(np.abs(expected), initial=1e-3))
    if found.shape != expected.shape:
        return f"the shape {found.shape} for {expected.shape}"
    if not np.isfinite(expected).all() or size > 1e30:
        return ""
    off = float(np.max(np.abs(found - expected), initial=0))
    return f"off by {off:.2g} of {size:.2g}" if not off <= share * size else ""


def outcome(path):
    """Return "refused", "right", "warned" or "wrong", and what is wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = load_model(path)
        except LegacyModelError:
            return "refused", ""
    said = " ".join(str(warning.message) for warning in caught)
    with readers.read(path) as legacy, budget.anew(WORK):
        traced = legacy.traced
        traces = concrete_functions.for_inference(traced.layers[0].traces)
        trace = (traces or [*traced.signatures.values()])[0]
        try:
            problem = _in_inference(model, traced, trace)
            problem = problem or _in_training(model, traced, trace)
        except UNEXPECTED as error:
            return "wrong", f"{type(error).__name__}: {error}"
    if "in training" in problem and "in training" in said.partition("Random")[2]:
        return "warned", problem
    return ("wrong", problem) if problem else ("right", "")


def _called(model, inputs, **kwargs):
    outputs = model(inputs if len(inputs) > 1 else inputs[0], **kwargs)
    return [keras.ops.convert_to_numpy(y) for y in keras.tree.flatten(outputs)]


def _in_inference(model, traced, trace):
    specs = concrete_functions.specs(trace.inputs)
    for scale in SCALES:
        for batch in BATCHES:
            inputs = _inputs(specs, batch, scale)
            found = _called(model, inputs, training=False)
            for one, other in zip(found, _run(traced, trace, inputs), strict=False):
                if problem := _differ(one, other):
                    return f"at scale {scale}, batch {batch}: {problem}"
    return ""


def _in_training(model, traced, trace):
    """Compare outputs, moved statistics and gradients in training."""
    twin = in_training.twin(traced.layers[0], trace)
    specs = concrete_functions.specs(trace.inputs)
    count = len(concrete_functions.specs(trace.outputs))
    inputs, twin = _inputs(specs, 5, 1, seed=1), twin or trace
    bodies = in_training.bodies(traced, twin.function)
    ops = {node.op for body in bodies for node in body.values()}
    if any("Random" in op or op in ("TruncatedNormal", "_Dropout") for op in ops):
        return ""
    expected = _run(traced, twin, inputs)[:count]
    moved = _moved(traced, inputs)
    if "StopGradient" not in ops and not any(
        own_gradients.is_own(node, body, traced)
        for body in bodies
        for node in body.values()
    ):
        problem = _of_gradients(model, traced, twin, inputs, count)
        if problem:
            return f"in training, gradients: {problem}"
    found = _called(model, inputs, training=True)
    for one, other in zip(found, expected, strict=False):
        if problem := _differ(one, other):
            return f"in training: {problem}"
    values = [v.numpy() for v in model.non_trainable_variables]
    for array in moved:
        if not any(v.size == array.size and not _differ(v, array) for v in values):
            return "in training: statistics that move otherwise"
    return ""


def _moved(traced, inputs):
    """Return the statistics after a step, of a layer that takes the model's input."""
    for layer in traced.layers.values():
        if layer.class_name != "Norm":
            continue
        trace = concrete_functions.for_inference(layer.traces)[0]
        old = {n: traced.variables[n].read() for n in layer.variables}
        twin = in_training.twin(layer, trace)
        inside, values, assigned = normalizations.assignments(traced, twin)
        found = _run(inside, values, inputs[:1])
        return [
            normalizations.ASSIGNMENTS[op][1] * old[number]
            + normalizations.ASSIGNMENTS[op][0] * value
            for (op, number), value in zip(assigned, found, strict=True)
        ]
    return []


def _of_gradients(model, traced, twin, inputs, count):
    """Compare directional derivatives; those of the graph are differences."""
    rng = np.random.default_rng(2)
    variables, directions = [*model.trainable_variables], {}
    total = 0.0
    values = [keras.ops.convert_to_tensor(v.numpy()) for v in variables]
    others = [v.value for v in model.non_trainable_variables]
    x = inputs if len(inputs) > 1 else inputs[0]

    def loss(values):
        y, _ = model.stateless_call(values, others, x, training=True)
        flat = [keras.ops.cast(one, "float32") for one in keras.tree.flatten(y)]
        return sum(keras.ops.sum(keras.ops.sin(one)) for one in flat)

    gradients = backend.gradients(loss, values)
    numbers = {n: traced.variables[n].read() for n in traced.layers[0].variables}
    for variable, gradient in zip(variables, gradients, strict=True):
        own = variable.numpy()
        same = [
            n
            for n, array in numbers.items()
            if array.size == own.size
            and any(np.array_equal(s * array.ravel(), own.ravel()) for s in (1, -1))
        ]
        if len(same) != 1:
            return ""
        sign = 1 if np.array_equal(numbers[same[0]].ravel(), own.ravel()) else -1
        directions[same[0]] = rng.normal(size=numbers[same[0]].shape)
        direction = sign * directions[same[0]].reshape(own.shape)
        total += float(np.sum(gradient * direction))

    def reference(step):
        arrays = {n: a + step * directions.get(n, 0) for n, a in numbers.items()}
        outputs = _run(traced.with_values(arrays), twin, inputs)[:count]
        return sum(float(np.sin(y).sum()) for y in outputs)

    slopes = [(reference(s) - reference(-s)) / (2 * s) for s in (STEP, STEP / 10)]
    if abs(slopes[0] - slopes[1]) > 1e-3 * (1 + abs(slopes[0])):
        return ""  # at a kink
    return _differ(np.array([total]), np.array([slopes[1]]), 1e-2)


def copied(model, path):
    """Copy a SavedModel."""
    shutil.copytree(model, path)
