"""Data-parallel training in JAX, on CPUs: paceline run -n 2 examples/jax_train.py"""

import jax
import jax.numpy as jnp

import paceline.jax

group = paceline.jax.init()

# Every rank makes the same model, and data of its own: points of the same cubic curve.
widths = (1, 32, 32, 1)
keys = jax.random.split(jax.random.key(0), len(widths) - 1)
model = [
    {"w": jax.random.normal(key, (n, m)) * (2 / n) ** 0.5, "b": jnp.zeros(m)}
    for key, n, m in zip(keys, widths[:-1], widths[1:], strict=True)
]
inputs = jax.random.uniform(jax.random.key(1 + group.rank), (256, 1), minval=-1)
targets = inputs**3 - inputs / 2


def predict(model, x):
    for layer in model[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ model[-1]["w"] + model[-1]["b"]


def loss(model, x, y):
    return jnp.mean((predict(model, x) - y) ** 2)


@jax.jit
def step(model, x, y):
    error, gradients = jax.value_and_grad(loss)(model, x, y)
    error, gradients = paceline.jax.pmean((error, gradients))  # the only line that knows of other ranks
    return error, jax.tree.map(lambda value, gradient: value - 0.1 * gradient, model, gradients)


for i in range(401):
    error, model = step(model, inputs, targets)
    if i % 100 == 0 and group.rank == 0:
        print(f"step {i}: loss {error:.5f}")

weights = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(model)])
assert (paceline.jax.all_gather(weights) == weights).all(), "the ranks' models differ"
