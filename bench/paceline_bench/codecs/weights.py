"""Weights of a small network that was trained: what codecs meet in earnest."""

from __future__ import annotations

import inspect
import textwrap
import typing

import numpy as np
from numpy.typing import NDArray

_CONTEXT, _EMBEDDED, _HIDDEN, _SYMBOLS = 8, 32, 512, 128
"""Characters before the one to predict; numbers for each of them; hidden units; characters that are told apart."""
_STEPS, _BATCH, _RATE = 100, 32, 2e-3
"""Steps of Adam; samples of each; its learning rate."""

Weights = NDArray[np.float32]


def trained(steps: int = _STEPS) -> Weights:
    """Return all weights of a network with one hidden layer that predicts the next character of Python code, flat.

    It learns from the source of standard modules, with Adam (Kingma and Ba, arXiv:1412.6980). The same seed gives the
    same weights on the same machine.
    """
    random = np.random.default_rng(7)
    text = "".join(inspect.getsource(module) for module in (typing, inspect, textwrap))
    symbols = np.minimum(np.frombuffer(text.encode(), np.uint8), _SYMBOLS - 1)
    inputs = _CONTEXT * _EMBEDDED
    shapes = ((_SYMBOLS, _EMBEDDED), (inputs, _HIDDEN), (_HIDDEN, _SYMBOLS))
    layers = [random.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for shape in shapes]
    means, squares = ([np.zeros_like(layer) for layer in layers] for _ in range(2))
    for step in range(1, steps + 1):
        starts = random.integers(0, symbols.size - _CONTEXT - 1, _BATCH)
        context = symbols[starts[:, None] + np.arange(_CONTEXT)]
        gradients = _gradients(layers, context, symbols[starts + _CONTEXT])
        for layer, mean, square, gradient in zip(layers, means, squares, gradients, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            layer -= _RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return np.concatenate([layer.ravel() for layer in layers])


def _gradients(layers: list[Weights], context: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> list[Weights]:
    """Return the gradients of the mean cross-entropy."""
    embedding, inward, outward = layers
    given = embedding[context].reshape(len(context), -1)
    hidden = np.maximum(given @ inward, 0)
    logits = hidden @ outward
    chance = np.exp(logits - logits.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    chance[np.arange(len(wanted)), wanted] -= 1
    chance /= len(wanted)
    of_hidden = (chance @ outward.T) * (hidden > 0)
    of_embedding = np.zeros_like(embedding)
    np.add.at(of_embedding, context.ravel(), (of_hidden @ inward.T).reshape(-1, _EMBEDDED))
    return [of_embedding, given.T @ of_hidden, hidden.T @ chance]
