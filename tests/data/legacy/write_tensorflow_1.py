"""Writes SavedModels of graphs and sessions: `tensorflow_1.tar.xz`.

    python write_tensorflow_1.py OUTDIR

OUTDIR is a relative path: estimators and assets record it. Under TensorFlow 1.4.1 (Python 3.6) and 1.15.5 (Python 3.7). A case is a folder
`<release>/<case>/` with the SavedModel in `model/`, and `expected.npz`, computed by the
SavedModel after it was loaded: for each signature and each of two batches, the inputs
`x/<signature>/<batch>/<name>` and the outputs `y/<signature>/<batch>/<name>`; of the
first signature, its inputs `t/<name>`, the trained variables `w/<name>`, and `a/<name>` after a step of SGD, of
rate 0.1, on the sum of the mean squares of its outputs.
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

IS_1_4 = tf.__version__.startswith("1.4.")
SERVING, RATE = "serving_default", 0.1
PARSED = "ParseExample/ParseExample:0"
WORDS = ["de", "en", "fr", "naïve"]
RANDOM = np.random.RandomState(0)
CASES, FEEDS = {}, {}


def case(*feeds):
    """Enter a function as a case; `feeds` draw the inputs of each signature."""

    def enter(function):
        CASES[function.__name__], FEEDS[function.__name__] = function, feeds
        return function

    return enter


def floats(*shape):
    return lambda batch: RANDOM.uniform(-1, 1, (batch,) + shape).astype("float32")


def integers(*shape):
    return lambda batch: RANDOM.randint(0, 6, (batch,) + shape).astype("int32")


def words(batch):
    return np.array((["en", "xx", "naïve"] * batch)[:batch])


def build(path, *signatures, **options):
    """Write the graph of the default session with `(name, inputs, outputs)`."""
    session = tf.get_default_session()
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    for variable in tf.global_variables():
        low = 0.5 if "variance" in variable.op.name else -0.9
        drawn = RANDOM.uniform(low, 0.9 + (low > 0), variable.shape.as_list())
        variable.load(drawn.astype(variable.dtype.as_numpy_dtype), session)
    if len(signatures) == 1 and not IS_1_4:
        ((_, inputs, outputs),) = signatures
        tables = tf.tables_initializer() if options.pop("has_tables", False) else None
        tf.saved_model.simple_save(session, path, inputs, outputs, tables)
        return
    builder = tf.saved_model.builder.SavedModelBuilder(path)
    info = tf.saved_model.utils.build_tensor_info
    definition = tf.saved_model.signature_def_utils.build_signature_def
    builder.add_meta_graph_and_variables(
        session,
        ["serve"],
        {
            name: definition(
                {key: info(x) for key, x in inputs.items()},
                {key: info(y) for key, y in outputs.items()},
            )
            for name, inputs, outputs in signatures
        },
        assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
        legacy_init_op=tf.tables_initializer() if options.get("has_tables") else None,
    )
    builder.save()


@case({"x": floats(4)})
def dense(path):
    """With an optimizer, whose slots are variables too, and a rate with a default."""
    x = tf.placeholder(tf.float32, (None, 4), "x")
    rate = tf.placeholder_with_default(1.0, (), "keep_prob")
    hidden = tf.layers.dense(x, 5, tf.nn.relu, name="hidden")
    y = tf.layers.dense(tf.nn.dropout(hidden, rate), 3, name="out")
    tf.train.AdamOptimizer().minimize(tf.reduce_mean(y**2))
    build(path, (SERVING, {"x": x}, {"y": tf.nn.softmax(y)}))


@case({"image": floats(8, 8, 2)})
def keras(path):
    """A model of tf.keras, which learns in a phase that is a tensor."""
    layers = tf.keras.layers
    x = tf.keras.Input((8, 8, 2))
    y = layers.BatchNormalization()(layers.Conv2D(3, 3)(x))
    y = layers.Dropout(0.5)(layers.Flatten()(layers.Activation("relu")(y)))
    tf.keras.backend.set_session(tf.get_default_session())
    build(path, (SERVING, {"image": x}, {"y": layers.Dense(2)(y)}))


def keras_exported(path):
    """A graph for each phase, and a checkpoint by objects."""
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Dense(5, "tanh", input_shape=(4,), name="a")])
    model.add(layers.Dense(2, name="b"))
    model.compile("sgd", "mse")
    model.train_on_batch(floats(4)(2), floats(2)(2))
    tf.keras.experimental.export_saved_model(model, path)


if not IS_1_4:
    case({"a_input": floats(4)})(keras_exported)


@case({"x": floats(4)})
def dense_of_resources(path):
    with tf.variable_scope("net", use_resource=True):
        x = tf.placeholder(tf.float32, (None, 4), "x")
        hidden = tf.layers.dense(x, 5, tf.nn.tanh)
        y = tf.layers.dense(hidden, 3)
    build(path, (SERVING, {"x": x}, {"y": y}))


@case({"image": floats(8, 8, 2)})
def image(path):
    """Whether it trains is a tensor, so each normalization is a condition."""
    x = tf.placeholder(tf.float32, (None, 8, 8, 2), "x")
    trains = tf.placeholder_with_default(False, (), "trains")
    y = tf.layers.conv2d(x, 3, 3, padding="same", use_bias=False)
    y = tf.nn.relu(tf.layers.batch_normalization(y, training=trains))
    y = tf.layers.max_pooling2d(y, 2, 2)
    y = tf.layers.conv2d(y, 4, 3, strides=2, activation=tf.nn.relu)
    y = tf.layers.batch_normalization(tf.layers.flatten(y), training=trains)
    y = tf.layers.dense(tf.layers.dropout(y, 0.4, training=trains), 3)
    build(path, (SERVING, {"image": x}, {"scores": y}))


if IS_1_4:
    tf.layers.flatten = tf.contrib.layers.flatten


@case({"ids": integers(7)})
def loop(path):
    """Words through three rounds of a matrix."""
    ids = tf.placeholder(tf.int32, (None, 7), "ids")
    table = tf.get_variable("table", (6, 4))
    kernel = tf.get_variable("kernel", (4, 4))
    y = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)

    def body(i, y):
        return i + 1, tf.tanh(tf.matmul(y, kernel)) + tf.cast(i, tf.float32)

    _, y = tf.while_loop(lambda i, y: i < 3, body, [tf.constant(0), y])
    build(path, (SERVING, {"ids": ids}, {"y": y}))


@case({"x": floats(5, 3)})
def rnn(path):
    """A recurrent network over five steps, in a loop over arrays of tensors."""
    x = tf.placeholder(tf.float32, (None, 5, 3), "x")
    cell = tf.nn.rnn_cell.GRUCell(4)
    every, last = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    build(path, (SERVING, {"x": x}, {"every": every, "last": last}))


@case({"x": floats(4)})
def condition(path):
    """A choice by the data, in which there is another, and one of constants."""
    x = tf.placeholder(tf.float32, (None, 4), "x")
    kernel, bias = tf.get_variable("kernel", (4, 3)), tf.get_variable("bias", (3,))
    positive = tf.reduce_mean(x) > 0
    inner = tf.reduce_max(x) > 0.9

    def both():
        y = tf.matmul(x, kernel)
        return tf.cond(inner, lambda: y + bias, lambda: y - bias), tf.reduce_sum(y)

    y, total = tf.cond(positive, both, lambda: (x[:, :3], tf.reduce_sum(x)))
    number = tf.cond(positive, lambda: tf.constant(2.0), lambda: tf.constant(-3.0))
    build(path, (SERVING, {"x": x}, {"y": y * number, "total": total}))


@case({"x": floats(4)}, {"hidden": floats(5)})
def two(path):
    """Two signatures; the second one begins in the middle of the graph."""
    x = tf.placeholder(tf.float32, (None, 4), "x")
    hidden = tf.layers.dense(x, 5, tf.nn.relu)
    y = tf.layers.dense(hidden, 3)
    build(
        path,
        (SERVING, {"x": x}, {"hidden": hidden, "y": y}),
        ("head", {"hidden": hidden}, {"y": y}),
    )


@case({"x": floats(4)})
def partitioned(path):
    """Variables in three parts, and in a single one."""
    x = tf.placeholder(tf.float32, (None, 4), "x")
    parts = tf.fixed_size_partitioner
    kernel = tf.get_variable("kernel", (4, 7), partitioner=parts(3, axis=1))
    bias = tf.get_variable("bias", (7,), partitioner=parts(1))
    build(path, (SERVING, {"x": x}, {"y": tf.matmul(x, kernel) + bias}))


@case({"x": floats(3)})
def function(path):
    """A function of the graph's library."""
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32)
    def squared(x, kernel):
        return tf.square(tf.matmul(x, kernel))

    x = tf.placeholder(tf.float32, (None, 3), "x")
    y = squared(x, tf.get_variable("kernel", (3, 2)))
    y.set_shape((None, 2))
    build(path, (SERVING, {"x": x}, {"y": y}))


@case({"x": floats(3)})
def frozen(path):
    """A graph whose variables were made constants."""
    x = tf.placeholder(tf.float32, (None, 3), "x")
    tf.layers.dense(x, 2, tf.nn.relu, bias_initializer=tf.random_normal_initializer())
    session = tf.get_default_session()
    session.run(tf.global_variables_initializer())
    graph = tf.graph_util.convert_variables_to_constants(
        session, session.graph_def, ["dense/Relu"]
    )
    with tf.Graph().as_default(), tf.Session():
        x, y = tf.import_graph_def(graph, return_elements=["x:0", "dense/Relu:0"])
        build(path, (SERVING, {"x": x}, {"y": y}))


@case({"words": words})
def table(path):
    """Words to rows by a table of constants."""
    words = tf.placeholder(tf.string, (None,), "words")
    numbers = np.arange(4, dtype="int64")
    found = lookup_table(tf.constant(WORDS), numbers).lookup(words)
    y = tf.nn.embedding_lookup(tf.get_variable("rows", (5, 3)), found + 1)
    build(path, (SERVING, {"words": words}, {"y": y}), has_tables=True)


def lookup_table(keys, values):
    if IS_1_4:
        lookup = tf.contrib.lookup
        pairs = lookup.KeyValueTensorInitializer(keys, tf.constant(values))
        return lookup.HashTable(pairs, -1)
    pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values))
    return tf.lookup.StaticHashTable(pairs, -1)


@case({"words": words})
def table_of_file(path):
    """Words to the numbers of their lines in an asset."""
    words = tf.placeholder(tf.string, (None,), "words")
    with open(path + ".words.txt", "wb") as file:
        file.write("\n".join(WORDS).encode())
    found = tf.contrib.lookup.index_table_from_file(path + ".words.txt", 0, 4, -1)
    y = tf.nn.embedding_lookup(tf.get_variable("rows", (5, 3)), found.lookup(words) + 1)
    build(path, (SERVING, {"words": words}, {"y": y}), has_tables=True)


def estimator(path, receiver, vocabulary=None):
    """A classifier, trained for a step."""
    columns = [tf.feature_column.numeric_column("x", (4,))]
    made = tf.estimator.DNNClassifier(
        [5, 3], columns, n_classes=3, label_vocabulary=vocabulary
    )

    def batch():
        y = [0, 2] if vocabulary is None else [vocabulary[0], vocabulary[2]]
        return {"x": tf.ones((2, 4))}, tf.constant(y)

    made.train(batch, steps=1)
    export = getattr(made, "export_saved_model", made.export_savedmodel)
    shutil.move(export(path + ".all", receiver(columns)).decode(), path)
    for left in os.listdir(path):
        if left.startswith("events"):
            os.remove(os.path.join(path, left))


@case({"x": floats(4)})
def estimator_raw(path):
    def receiver(columns):
        x = tf.placeholder(tf.float32, (None, 4), "x")
        return tf.estimator.export.build_raw_serving_input_receiver_fn({"x": x})

    with tf.Graph().as_default():
        function = receiver(None)
    estimator(path, lambda columns: function, ["low", "middle", "high"])


@case({"x": floats(4)})
def estimator_parsed(path):
    """What takes serialized examples; the inputs are those after they are parsed."""

    def receiver(columns):
        spec = tf.feature_column.make_parse_example_spec(columns)
        return tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)

    estimator(path, receiver)


def called(session, signature, given):
    names = {key: info.name for key, info in signature.inputs.items()}
    feeds = {names.get(key, PARSED): value for key, value in given.items()}
    for op in session.graph.get_operations():
        if op.name.endswith("keras_learning_phase") and op.type == "Placeholder":
            feeds[op.outputs[0]] = False
    fetches = {key: info.name for key, info in signature.outputs.items()}
    return session.run(fetches, feeds), feeds


def step(session, signature, feeds):
    """Train the loaded graph for a step; return the weights before and after."""
    graph = session.graph
    outputs = [graph.get_tensor_by_name(y.name) for y in signature.outputs.values()]
    outputs = [y for y in outputs if y.dtype == tf.float32]
    loss = tf.add_n([tf.reduce_mean(y**2) for y in outputs])
    variables = tf.trainable_variables()
    if not variables:
        return {}
    gradients = tf.gradients(loss, variables)
    pairs = [(v, g) for v, g in zip(variables, gradients) if g is not None]
    stored = {"w/" + v.op.name: session.run(v) for v, _ in pairs}
    gradients = [tf.convert_to_tensor(g) for _, g in pairs]
    for (v, _), moved in zip(pairs, session.run(gradients, feeds)):
        stored["a/" + v.op.name] = stored["w/" + v.op.name] - RATE * moved
    return stored


def results(path, feeds):
    stored = {}
    with tf.Graph().as_default(), tf.Session() as session:
        graph = tf.saved_model.loader.load(session, ["serve"], path)
        names = sorted(graph.signature_def, reverse=True)  # serving_default first
        if "predict" in names:
            names = ["predict"]
        for name, drawn in zip(names, feeds):
            signature = graph.signature_def[name]
            for number, batch in enumerate((2, 5)):
                given = {key: draw(batch) for key, draw in drawn.items()}
                found, fed = called(session, signature, given)
                for kind, arrays in (("x", given), ("y", found)):
                    for key, array in arrays.items():
                        if array.dtype == object:
                            array = np.char.decode(array.astype("S"))
                        stored["/".join([kind, name, str(number), key])] = array
        signature = graph.signature_def[names[0]]
        given = {key: draw(3) for key, draw in feeds[0].items()}
        stored.update({"t/" + key: value for key, value in given.items()})
        _, fed = called(session, signature, given)
        stored.update(step(session, signature, fed))
    return stored


def main(out):
    tf.logging.set_verbosity(tf.logging.ERROR)
    for name, make in CASES.items():
        folder = os.path.join(out, tf.__version__, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        path = os.path.join(folder, "model")
        with tf.Graph().as_default(), tf.Session():
            tf.set_random_seed(1)
            make(path)
        shutil.rmtree(path + ".all", ignore_errors=True)
        if os.path.exists(path + ".words.txt"):  # its copy is an asset
            os.remove(path + ".words.txt")
        stored = results(path, FEEDS[name])
        np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)
        print(name, {key: value.shape for key, value in stored.items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
