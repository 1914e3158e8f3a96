"""Compressions that encode between machines: within the codec's loss, the same on all ranks, with error feedback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from horovod_ranks import Ranks

import paceline.horovod.tensorflow as hvd
from paceline.coordinate import Coordinator

LARGE = 30_000
"""Elements of a tensor that is encoded even if it is carried out alone."""
STEPS = 12
CODECS = {"int8": 1 / 127, "int4": 1 / 7, "three_in_one": 1 / 64}
"""The loss of an element, as a share of the largest."""


def values(rank: int, shape: tuple[int, ...] = (LARGE,)) -> Any:
    return np.random.default_rng(rank).standard_normal(shape).astype(np.float32)


def everyone_has(found: Any) -> None:
    rows = hvd.allgather(tf.reshape(found, (1, -1))).numpy()
    assert all((row == rows[0]).all() for row in rows)


def calls(rank: int, size: int) -> None:
    """Eagerly and in a function; only sums and means of float32 are encoded."""
    everyone = np.stack([values(other) for other in range(size)]).astype(np.float64)
    for name, loss in CODECS.items():
        codec = getattr(hvd.Compression, name)
        for call in (hvd.allreduce, lambda x, **more: hvd.grouped_allreduce([x], **more)[0]):
            for way in (call, tf.function(call)):
                found = way(tf.constant(values(rank)), op=hvd.Sum, compression=codec)
                off = np.abs(found.numpy() - everyone.sum(0)).max()
                assert 1e-4 < off <= (size + 1) * loss * np.abs(everyone).sum(0).max(), name
                everyone_has(found)
        part = hvd.reducescatter(tf.constant(values(rank)), op=hvd.Sum, compression=codec).numpy()
        mine = everyone.sum(0)[rank * LARGE // size :][: LARGE // size]
        assert 1e-4 < np.abs(part - mine).max() <= (size + 1) * loss * np.abs(everyone).sum(0).max(), name
    codec = hvd.Compression.int8
    for plain in (tf.range(LARGE) + rank, tf.cast(tf.range(LARGE) + rank, tf.float64)):
        total = hvd.allreduce(plain, op=hvd.Sum, compression=codec).numpy()
        np.testing.assert_array_equal(total, 2 * np.arange(LARGE) + 1)
    largest = hvd.allreduce(tf.fill((LARGE,), 0.1 + rank), op=hvd.Max, compression=codec).numpy()
    np.testing.assert_array_equal(largest, np.full(LARGE, 0.1 + size - 1, np.float32))
    x = tf.Variable(values(rank))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum, compression=codec))
    np.testing.assert_allclose(tape.gradient(loss, x).numpy(), size, atol=0.1)


def feedback(rank: int, size: int) -> None:
    """The mean of many steps with the same gradients comes as close as one step's loss divided by their number."""
    shapes = [(LARGE,), (150, 300), (7,)]
    exact = [np.mean([values(9 * r + i, s) for r in range(size)], 0, np.float64) for i, s in enumerate(shapes)]

    def train(way: Any, prefix: str, **options: Any) -> None:
        variables = [tf.Variable(tf.zeros(s), name=f"{prefix}{i}") for i, s in enumerate(shapes)]
        factors = [tf.constant(values(9 * rank + i, s)) for i, s in enumerate(shapes)]

        def step() -> list[Any]:
            with tf.GradientTape() as tape:
                loss = tf.add_n([tf.reduce_sum(v * f) for v, f in zip(variables, factors, strict=True)])
            tape = hvd.DistributedGradientTape(tape, compression=hvd.Compression.int8, **options)
            return list(tape.gradient(loss, variables))

        taken, totals, worst = way(step), [np.zeros(s) for s in shapes], []
        for number in range(STEPS):
            for total, gradient in zip(totals, taken(), strict=True):
                total += gradient.numpy()
                everyone_has(gradient)
            worst.append(max(np.abs(t / (number + 1) - e).max() for t, e in zip(totals, exact, strict=True)))
        assert worst[0] > 1e-4 and worst[-1] <= 3 * worst[0] / STEPS, (prefix, worst)

    train(lambda step: step, "eager")
    train(tf.function, "traced")
    train(tf.function, "grouped", groups=1)


def disagreement(rank: int, size: int) -> None:
    compression = [hvd.Compression.int8, hvd.Compression.none][rank]
    with pytest.raises(tf.errors.FailedPreconditionError, match="SUM as int8"):
        hvd.allreduce(tf.ones(9), name="loss", op=hvd.Sum, compression=compression)
    assert hvd.allreduce(tf.ones(1), op=hvd.Sum).numpy() == size


def first_values(rank: int, size: int) -> None:
    """broadcast_variables sends float32 as `lossless`, because PACELINE_COMPRESS says so; broadcast does not."""
    sent: list[str | None] = []
    send = Coordinator.broadcast

    def sending(*arguments: Any, codec: str | None = None, **others: Any) -> Any:
        sent.append(codec)
        return send(*arguments, codec=codec, **others)

    Coordinator.broadcast = sending  # type: ignore[method-assign]
    wide = tf.Variable(values(rank), dtype=tf.float64)
    variables = [tf.Variable(values(rank)), tf.Variable(tf.range(LARGE) + rank), wide]
    hvd.broadcast_variables(variables, 1)
    assert sent == ["lossless", None, None] and (variables[0].numpy() == values(1)).all()
    assert variables[1].numpy()[0] == 1 and (variables[2].numpy() == values(1)).all()
    state = hvd.elastic.TensorFlowState([tf.Variable(values(rank, (300, 200)))], step=rank)
    state.sync()
    assert "lossless" in sent[3:] and (state.variables[0].numpy() == values(0, (300, 200))).all()
    assert state.step == 0
    with tf.Graph().as_default():
        variables = [tf.compat.v1.get_variable(f"v{n}", initializer=values(rank + n)) for n in range(2)]
        assign = hvd.broadcast_variables(variables, 1)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            sent.clear()
            session.run(assign)
            assert sent == ["lossless"] * 2
            assert all((session.run(one) == values(1 + n)).all() for n, one in enumerate(variables))
    sent.clear()
    assert (hvd.broadcast(tf.constant(values(rank)), 1).numpy() == values(1)).all() and sent == [None]
    Coordinator.broadcast = send  # type: ignore[method-assign]


def test_first_values(ranks: Ranks) -> None:
    ranks(first_values, 2, machines="01", environment={"PACELINE_COMPRESS": "lossless"})


def test_codecs_between_machines(ranks: Ranks) -> None:
    for what in (calls, feedback, disagreement):
        ranks(what, 2, machines="01")
