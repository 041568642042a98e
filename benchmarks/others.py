"""Model B in plain loops without Keras, without and with dynamic loss scaling."""

import numpy as np

from benchmarks import devices, works

WIDTH, DEPTH, BATCH = 256, 8, 32
HALF = works.MIXED.removeprefix("mixed_")
NAME = {
    "torch": "torch.amp.GradScaler",
    "jax": "lax.cond by hand",
    "tensorflow": "tf.cond by hand",
}[works.BACKEND]


def runs():
    """Return `{"none": run, "dynamic": run}` for `timing.by_turns`."""
    make = {"torch": _torch, "jax": _jax, "tensorflow": _tensorflow}[works.BACKEND]
    return {"none": make(False), "dynamic": make(True)}


def _arrays():
    rng = np.random.default_rng(0)
    shapes = [(BATCH, WIDTH)] * 2 + [(WIDTH, WIDTH)] * DEPTH
    return [(rng.normal(size=shape) / 16).astype("float32") for shape in shapes]


def _torch(scales):
    import torch

    device = "cpu" if devices.gpu() is None else "cuda"
    half = getattr(torch, HALF)
    x, y, *kernels = (torch.from_numpy(array).to(device) for array in _arrays())
    kernels = [torch.nn.Parameter(kernel) for kernel in kernels]
    biases = [torch.nn.Parameter(torch.zeros(WIDTH, device=device)) for _ in kernels]
    adam = torch.optim.Adam([*kernels, *biases], foreach=True)
    scaler = torch.amp.GradScaler(device, enabled=scales)

    def step():
        h = x.to(half)
        for kernel, bias in zip(kernels, biases, strict=True):
            h = torch.relu(h @ kernel.to(half) + bias.to(half))
        adam.zero_grad()
        scaler.scale(((h.float() - y) ** 2).mean()).backward()
        scaler.step(adam)
        scaler.update()

    def run(n):
        for _ in range(n):
            step()
        devices.wait()

    return run


def _jax(scales):
    import jax
    from jax import numpy as jnp

    x, y, *kernels = map(jnp.asarray, _arrays())
    weights = [*kernels, *(jnp.zeros(WIDTH) for _ in kernels)]

    def loss(weights, scale):
        h = x.astype(HALF)
        for kernel, bias in zip(weights[:DEPTH], weights[DEPTH:], strict=True):
            h = jax.nn.relu(h @ kernel.astype(HALF) + bias.astype(HALF))
        return ((h.astype("float32") - y) ** 2).mean() * scale

    def adam(state, gradients):
        weights, m, v, count = state
        m = [0.9 * a + 0.1 * g for a, g in zip(m, gradients, strict=True)]
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, gradients, strict=True)]
        rate = 1e-3 * jnp.sqrt(1 - 0.999 ** (count + 1)) / (1 - 0.9 ** (count + 1))
        weights = [
            w - rate * a / (jnp.sqrt(b) + 1e-7)
            for w, a, b in zip(weights, m, v, strict=True)
        ]
        return weights, m, v, count + 1

    @jax.jit
    def step(state, scale, good):
        if not scales:
            return adam(state, jax.grad(loss)(state[0], 1.0)), scale, good
        gradients = [g / scale for g in jax.grad(loss)(state[0], scale)]
        finite = jnp.stack([jnp.isfinite(g).all() for g in gradients]).all()
        state = jax.lax.cond(finite, lambda s: adam(s, gradients), lambda s: s, state)
        full = good + 1 >= 2000
        scale = jnp.where(finite, jnp.where(full, scale * 2, scale), scale / 2)
        return state, scale, jnp.where(finite & ~full, good + 1, 0)

    zeros = [jnp.zeros_like(weight) for weight in weights]
    state = (weights, zeros, zeros, 0), jnp.float32(2**15), jnp.int32(0)

    def run(n):
        nonlocal state
        for _ in range(n):
            state = step(*state)
        jax.block_until_ready(state)

    return run


def _tensorflow(scales):
    import tensorflow as tf

    x, y, *kernels = map(tf.constant, _arrays())
    weights = [tf.Variable(kernel) for kernel in kernels]
    weights += [tf.Variable(tf.zeros(WIDTH)) for _ in kernels]
    slots = [
        (tf.Variable(tf.zeros_like(w)), tf.Variable(tf.zeros_like(w))) for w in weights
    ]
    scale, good = tf.Variable(2.0**15), tf.Variable(0)
    count = tf.Variable(0.0)

    def adam(gradients):
        count.assign_add(1.0)
        rate = 1e-3 * tf.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        for weight, (m, v), g in zip(weights, slots, gradients, strict=True):
            m.assign_add(0.1 * (g - m))
            v.assign_add(0.001 * (g * g - v))
            weight.assign_sub(rate * m / (tf.sqrt(v) + 1e-7))

    def grow():
        full = good + 1 >= 2000
        scale.assign(tf.where(full, scale * 2, scale))
        good.assign(tf.where(full, 0, good + 1))

    def shrink():
        scale.assign(scale / 2)
        good.assign(0)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            h = tf.cast(x, HALF)
            for kernel, bias in zip(weights[:DEPTH], weights[DEPTH:], strict=True):
                h = tf.nn.relu(h @ tf.cast(kernel, HALF) + tf.cast(bias, HALF))
            loss = tf.reduce_mean((tf.cast(h, "float32") - y) ** 2)
            loss = loss * scale if scales else loss
        gradients = tape.gradient(loss, weights)
        if not scales:
            adam(gradients)
            return loss
        gradients = [g / scale for g in gradients]
        checks = [tf.reduce_all(tf.math.is_finite(g)) for g in gradients]

        def apply():
            adam(gradients)
            grow()
            return tf.constant(True)

        def skip():
            shrink()
            return tf.constant(False)

        tf.cond(tf.reduce_all(tf.stack(checks)), apply, skip)
        return loss

    def run(n):
        for _ in range(n):
            float(step())

    return run
