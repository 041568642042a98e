"""TensorFlow: two virtual CPUs under MirroredStrategy, each with half of the batch."""

import contextlib

import common
import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
# One for all: collectives of a second one would be numbered as those of the first.
STRATEGY = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@contextlib.contextmanager
def merging_never():
    """Let replicas run on their own, as they do under XLA on GPUs.

    TensorFlow's own tests do so: tensorflow/python/distribute/strategy_combinations.py.
    """
    STRATEGY.extended._use_merge_call = lambda: False
    try:
        yield
    finally:
        del STRATEGY.extended._use_merge_call


def keras_step(model, x, y):
    """Train one step as Keras 3 does, on scaled gradients."""
    with tf.GradientTape() as tape:
        loss = keras.losses.MeanSquaredError()(y, model(x))
        loss = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(loss, model.trainable_weights)
    model.optimizer.apply(gradients, model.trainable_weights)


def legacy_step(model, x, y):
    """Train one step as tf.keras 2 did, on unscaled gradients."""
    optimizer = model.optimizer
    with tf.GradientTape() as tape:
        loss = keras.losses.MeanSquaredError()(y, model(x))
        loss = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(loss, model.trainable_weights)
    gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


def loop(strategy, model, step, compiled):
    """Return a step that takes a joined batch to the replicas by `strategy.run`."""
    model.optimizer.build(model.trainable_variables)

    def run(x, y):
        strategy.run(lambda x, y: step(model, x, y), (x, y))

    if compiled:
        run = tf.function(run)

    def train(model, x, y):
        size = len(x) // strategy.num_replicas_in_sync

        def shares(batch):
            parts = [batch[i : i + size] for i in range(0, len(batch), size)]
            return strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(parts[context.replica_id_in_sync_group])
            )

        run(shares(x), shares(y))

    return train


def mirrored(policy, rule, strategy=STRATEGY, step=None, compiled=True, **options):
    """Return the record of a training, by `Model.fit` or a loop of one's own."""

    def copies(variable):
        return [v.numpy() for v in strategy.experimental_local_results(variable.value)]

    with strategy.scope():
        model = common.model_of(policy, rule, **options)
        train = loop(strategy, model, step, compiled) if step else common.fit_step
    return common.trained(model, common.batches(policy, rule), copies, train)


def without_merging(policy, rule):
    with merging_never():
        return mirrored(policy, rule, step=keras_step)


def compiled_alone(policy, rule):
    """Compile the step of each replica by itself, as `jit_compile=True` does."""
    compiled = tf.function(keras_step)
    with merging_never():
        return mirrored(policy, rule, step=compiled)


def xla_on_one(policy, rule):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    return mirrored(policy, rule, strategy, jit_compile=True)


# Way of training -> how, and the policies and rules to try.
FIRST = common.CASES[:1]
WAYS = {
    "Model.fit": (lambda *case: mirrored(*case, jit_compile=False), FIRST),
    "loop": (lambda *case: mirrored(*case, step=keras_step), common.CASES),
    "eager loop": (
        lambda *case: mirrored(*case, step=keras_step, compiled=False),
        FIRST,
    ),
    "legacy loop": (lambda *case: mirrored(*case, step=legacy_step), FIRST),
    "loop without merging": (without_merging, FIRST),
    "loop that compiles each replica": (compiled_alone, FIRST),
    "Model.fit on one replica, XLA": (xla_on_one, FIRST),
}


def stock_fit(jit_compile):
    """Train in stock Keras: no policy, no loss scale."""
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=jit_compile)
    x, y = common.batches("float32", "dynamic")
    common.fit_step(model, x[0], y[0])


class Stock(keras.optimizers.LossScaleOptimizer):
    """The class of stock Keras, in whose place ours is created."""


def stock_scaled():
    """Apply gradients of which the second replica's are infinite; return the weight."""
    with STRATEGY.scope():
        variable = keras.Variable(1.0)
        optimizer = Stock(keras.optimizers.SGD())
        optimizer.build([variable])

    def step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        optimizer.apply([tf.constant([1.0, float("inf")])[replica]], [variable])

    tf.function(lambda: STRATEGY.run(step))()
    return float(variable.value.values[0])


def stock():
    """Return what stock Keras makes of three things."""
    found = {"overflow on the second replica": stock_scaled()}
    try:
        stock_fit(jit_compile=True)
    except tf.errors.InvalidArgumentError as error:
        found["XLA on two devices"] = str(error)
    try:
        with merging_never():
            stock_scaled()
    except RuntimeError as error:
        found["without merging"] = str(error)
    return found


if __name__ == "__main__":
    # Stock last: what fails inside a collective leaves it broken for all that follow.
    common.compare(WAYS, stock=stock)
