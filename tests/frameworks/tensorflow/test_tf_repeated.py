"""An all-reduce of one named tensor asks Python once; afterwards the kernel submits it by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from horovod_ranks import Ranks

import paceline.horovod.tensorflow as hvd
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.kernels.node import Node
from paceline.runtime.completions import Completions


class Asked(dict[int, Node]):
    """The library's nodes, with how often calls of each type of op were handed to Python."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        super().__init__(nodes)
        self.calls: Counter[str] = Counter()

    def __getitem__(self, kernel: int) -> Node:
        node = super().__getitem__(kernel)
        self.calls[node.op] += 1
        return node

    def since(self) -> dict[str, int]:
        """The calls since this was last asked."""
        calls, self.calls = self.calls, Counter()
        return dict(calls)


def steps(rank: int, size: int) -> None:
    variables = [tf.Variable(tf.fill([10**number], 1.0), name=f"layer{number}") for number in range(5)]

    @tf.function
    def gradients(factor: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(variable) * factor for variable in variables])
        return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, variables)

    def step(number: int) -> None:
        for found, variable in zip(gradients(tf.constant(float(number + rank))), variables, strict=True):
            np.testing.assert_array_equal(found.numpy(), np.full(variable.shape, size * number + sum(range(size))))

    asked = LIBRARY._nodes = Asked(LIBRARY._nodes)
    step(1)
    assert asked.since() == {"AllreduceStart": len(variables)}
    with mock.patch.object(Completions, "report") as reported:
        for number in range(2, 12):
            step(number)
    assert asked.since() == {}
    assert not reported.called, "no thread of Python's heard of an end"

    hvd.shutdown()
    hvd.init()
    step(12)
    assert asked.since() == {"AllreduceStart": len(variables)}, "the new job's coordinator is another one"
    step(13)
    assert asked.since() == {}


def kinds(rank: int, size: int) -> None:
    asked = LIBRARY._nodes = Asked(LIBRARY._nodes)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def rows(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum, name="rows")

    found = [(rows(tf.ones([length])).numpy().tolist(), sum(asked.since().values())) for length in (3, 3, 5, 5, 3)]
    expected = [([float(size)] * length, calls) for length, calls in ((3, 1), (3, 0), (5, 1), (5, 0), (3, 1))]
    assert found == expected, "another shape is another request"

    ways = {
        "scaled in float32": (lambda: hvd.allreduce(tf.constant([8.0]), prescale_factor=0.5, name="a"), [4.0], 0),
        "int32": (lambda: hvd.allreduce(tf.constant([7]), op=hvd.Max, name="b"), [7], 0),
        "int32, scaled by Python": (lambda: hvd.allreduce(tf.constant([7]), op=hvd.Sum, postscale_factor=2.0), [28], 2),
        "Adasum": (lambda: hvd.allreduce(tf.constant([8.0]), op=hvd.Adasum, name="d"), [8.0], 2),
        "two tensors": (lambda: hvd.grouped_allreduce([tf.constant([1.0])] * 2, name="e")[1], [1.0], 2),
    }
    for name, (call, value, calls) in ways.items():
        step = tf.function(call)
        step()
        asked.since()
        assert [step().numpy().tolist() for _ in range(2)] == [value] * 2, name
        assert sum(asked.since().values()) == calls, name

    hvd.allreduce(tf.ones([4]), name="eager")
    asked.since()
    assert hvd.allreduce(tf.ones([4]), name="eager").numpy().tolist() == [1.0] * 4
    assert asked.since() == {}


def test_python_is_asked_for_what_is_new(ranks: Ranks) -> None:
    ranks(kinds, 2)


def test_no_python_runs_between_the_beginning_and_the_end_of_a_step_s_collectives(ranks: Ranks) -> None:
    ranks(steps, 2, fresh=True)
