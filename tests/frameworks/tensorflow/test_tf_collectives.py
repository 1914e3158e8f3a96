"""Every collective of TensorFlow's face, eagerly and in a `tf.function`, against NumPy; integers make sums exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from horovod_ranks import Ranks

import paceline.horovod.tensorflow as hvd

REDUCIBLE = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64"]
MOVABLE = [*REDUCIBLE, "uint16", "int16", "uint32", "uint64", "bool", "complex64", "complex128"]
SHAPES = [(), (0,), (1,), (7,), (3, 2), (2, 0, 3)]


def numbers(rank: int, shape: tuple[int, ...], dtype: str) -> Any:
    count = int(np.prod(shape))
    values = (np.arange(count) % 3 + 1 + rank).reshape(shape)
    return tf.cast(tf.constant(values), dtype)


def both_ways(call: Callable[..., Any], *tensors: Any) -> list[Any]:
    """What a call returns eagerly, and what it returns in a function."""
    return [call(*tensors), tf.function(call)(*tensors)]


def reductions(rank: int, size: int) -> None:
    """Every dtype in one shape, and every shape in one dtype."""
    numpys = {hvd.Sum: np.sum, hvd.Min: np.min, hvd.Max: np.max, hvd.Product: np.prod}

    def all_of(x: Any) -> list[Any]:
        scaled = hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
        return [*(hvd.allreduce(x, op=op) for op in numpys), scaled]

    for dtype, shape in [*((dtype, (3, 2)) for dtype in REDUCIBLE), *(("float32", shape) for shape in SHAPES)]:
        mine = numbers(rank, shape, dtype)
        everyone = np.stack([numbers(r, shape, "int64").numpy() for r in range(size)])
        expected = [combine(everyone, axis=0) for combine in (*numpys.values(), np.sum)]
        for results in both_ways(all_of, mine):
            for found, right in zip(results, expected, strict=True):
                assert found.dtype == mine.dtype
                np.testing.assert_array_equal(found.numpy().astype("int64"), right)
        np.testing.assert_array_equal(mine.numpy(), numbers(rank, shape, dtype).numpy(), "an input has changed")
    average = hvd.allreduce(tf.constant([1.0 + rank, 3.0]))
    np.testing.assert_array_equal(average.numpy(), [1 + (size - 1) / 2, 3.0])


def scattering(rank: int, size: int) -> None:
    for rows in (0, 1, size, 2 * size + 1):
        mine = numbers(rank, (rows, 3), "float32")
        total = sum(numbers(r, (rows, 3), "float32").numpy() for r in range(size))
        shares = [rows // size + (r < rows % size) for r in range(size)]
        begin = sum(shares[:rank])
        for found in both_ways(lambda x: hvd.reducescatter(x, op=hvd.Sum), mine):
            np.testing.assert_array_equal(found.numpy(), total[begin : begin + shares[rank]])
        plain = both_ways(hvd._reducescatter, mine)  # which sums by default
        for found in plain + both_ways(lambda x: hvd._grouped_reducescatter([x])[0], mine):
            np.testing.assert_array_equal(found.numpy(), total[begin : begin + shares[rank]])


def moves(rank: int, size: int) -> None:
    for dtype in MOVABLE:
        rows = [numbers(r, (r + 1, 2), dtype).numpy() for r in range(size)]
        for found in both_ways(hvd.allgather, tf.constant(rows[rank])):
            np.testing.assert_array_equal(found.numpy(), np.concatenate(rows))
        for found in both_ways(lambda x: hvd.broadcast(x, size - 1), numbers(rank, (3,), dtype)):
            np.testing.assert_array_equal(found.numpy(), numbers(size - 1, (3,), dtype).numpy())
        # Rank r sends r + to + 1 rows to each rank `to`.
        splits = [rank + to + 1 for to in range(size)]
        received = [r + rank + 1 for r in range(size)]
        everyone = [numbers(r, (sum(r + to + 1 for to in range(size)),), dtype).numpy() for r in range(size)]
        starts = [sum(r + to + 1 for to in range(rank)) for r in range(size)]
        expected = np.concatenate([everyone[r][starts[r] : starts[r] + received[r]] for r in range(size)])
        for rows_found, counts in both_ways(hvd.alltoall, tf.constant(everyone[rank]), tf.constant(splits)):
            np.testing.assert_array_equal(rows_found.numpy(), expected)
            assert counts.numpy().tolist() == received
    empty = hvd.allgather(tf.zeros([rank + 1, 0, 2]))
    assert empty.shape == (sum(range(1, size + 1)), 0, 2)


def groups(rank: int, size: int) -> None:
    tensors = [numbers(rank, (4,), "float32"), numbers(rank, (2, 2), "int32")]
    for found in both_ways(lambda *xs: hvd.grouped_allreduce(list(xs), op=hvd.Sum), *tensors):
        for result, dtype, shape in zip(found, ("float32", "int32"), ((4,), (2, 2)), strict=True):
            np.testing.assert_array_equal(result.numpy(), sum(numbers(r, shape, dtype).numpy() for r in range(size)))
    for found in both_ways(lambda *xs: hvd.grouped_allgather(list(xs)), *tensors):
        assert [result.shape[0] for result in found] == [4 * size, 2 * size]
    for found in both_ways(lambda *xs: hvd.grouped_reducescatter(list(xs), op=hvd.Sum), *tensors):
        assert sum(result.shape[0] for result in found) > 0


def slices(rank: int, size: int) -> None:
    mine = tf.IndexedSlices(tf.fill([rank + 1, 2], float(rank + 1)), tf.range(rank + 1), tf.constant([size, 2]))
    for found in both_ways(hvd.allreduce, mine):
        dense = tf.convert_to_tensor(found).numpy()
        expected = [sum(r + 1 for r in range(size) if r >= row) / size for row in range(size)]
        np.testing.assert_allclose(dense[:, 0], expected)


def questions(rank: int, size: int) -> None:
    def ask() -> Any:
        return tf.stack([hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()])

    for found in (ask(), tf.function(ask)()):
        assert found.numpy().tolist() == [rank, size, rank, size]
    assert hvd.process_set_included_op(0).numpy() == 1
    assert hvd.process_set_included_op(7).numpy() < 0


@pytest.mark.parametrize(
    "what",
    [pytest.param(reductions, marks=pytest.mark.smoke), scattering, moves, groups, slices, questions],
)
def test_a_collective_gives_what_numpy_gives(ranks: Ranks, what: Callable[[int, int], None]) -> None:
    ranks(what, 2)


def test_three_ranks_share_uneven_rows(ranks: Ranks) -> None:
    ranks(scattering, 3)


def gradients(rank: int, size: int) -> None:
    """The gradient of sum(weight * collective(x)), of which each rank's weight is different."""
    weight = tf.fill([2, 2], float(rank + 1))
    mean = (size + 1) / 2

    def of(call: Callable[[Any], Any], x: Any) -> list[Any]:
        def gradient(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                result = call(x)
                loss = tf.reduce_sum(result * float(rank + 1))
            return tape.gradient(loss, x)

        return [found.numpy() for found in both_ways(gradient, x)]

    x = tf.zeros([2, 2]) + weight
    for found in of(lambda x: hvd.allreduce(x, op=hvd.Sum), x):
        np.testing.assert_array_equal(found, np.full((2, 2), mean * size))
    for found in of(hvd.allreduce, x):
        np.testing.assert_array_equal(found, np.full((2, 2), mean))
    for found in of(lambda x: hvd.broadcast(x, 0), x):
        np.testing.assert_array_equal(found, np.full((2, 2), mean if rank == 0 else 0))
    for found in of(hvd.allgather, tf.ones([rank + 1, 3])):
        np.testing.assert_array_equal(found, np.full((rank + 1, 3), mean))
    for found in of(lambda x: hvd.alltoall(x, tf.constant([1] * size))[0], tf.ones([size, 2])):
        np.testing.assert_array_equal(found, np.array([[to + 1] * 2 for to in range(size)], "float32"))
    for found in of(lambda x: hvd.reducescatter(x, op=hvd.Sum), tf.ones([size, 2])):
        np.testing.assert_array_equal(found, np.array([[to + 1] * 2 for to in range(size)], "float32") * size)
    for found in of(lambda x: tf.add_n(hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)), x):
        np.testing.assert_array_equal(found, np.full((2, 2), 3 * mean * size))


@pytest.mark.smoke
def test_gradients_are_registered(ranks: Ranks) -> None:
    ranks(gradients, 2)


def opposite_orders(rank: int, size: int) -> list[float]:
    order = range(200) if rank == 0 else reversed(range(200))

    @tf.function
    def all_of() -> dict[str, Any]:
        return {f"{n:03}": hvd.allreduce(tf.fill([5], float(n)), op=hvd.Sum, name=f"number {n}") for n in order}

    for _ in range(3):
        results = all_of()
    return [float(results[name][0]) for name in sorted(results)]


def test_200_collectives_in_opposite_orders_need_no_thread_each(ranks: Ranks) -> None:
    environment = {"TF_NUM_INTEROP_THREADS": "1"}
    for results in ranks(opposite_orders, 2, environment=environment, fresh=True):
        assert results == [2.0 * number for number in range(200)]


def process_sets(rank: int, size: int) -> None:
    first, second = hvd.add_process_set([0, 1]), hvd.add_process_set([2])
    mine = first if rank < 2 else second
    ranks_of_mine = [0, 1] if rank < 2 else [2]
    for found in both_ways(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=mine), tf.constant([float(rank)])):
        assert found.numpy() == [sum(ranks_of_mine)]
    assert hvd.size_op(mine.process_set_id).numpy() == len(ranks_of_mine)
    if rank == 2:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a member of the provided process set"):
            hvd.allreduce(tf.constant([1.0]), process_set=first)
    with tf.GradientTape() as tape:
        x = tf.Variable([float(rank)])
        loss = tf.reduce_sum(x * (rank + 1))
    tape = hvd.DistributedGradientTape(tape, process_set=first)
    assert tape.gradient(loss, x).numpy() == [1.5 if rank < 2 else 3.0]
    unknown = hvd.ProcessSet([0])
    unknown.process_set_id = 10
    with pytest.raises(ValueError, match="not been registered"):
        hvd.allreduce(tf.constant([1.0]), process_set=unknown)
    hvd.remove_process_set(first)
    with pytest.raises(ValueError, match="not been registered"):
        hvd.allreduce(tf.constant([1.0]), process_set=first)


def test_process_sets(ranks: Ranks) -> None:
    ranks(process_sets, 3)


def uneven(rank: int, size: int) -> tuple[list[float], int]:
    results = [float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum)) for _ in range(2 + 3 * rank)]
    return results, int(hvd.join())


def test_a_rank_that_joins_gives_zeros(ranks: Ranks) -> None:
    assert ranks(uneven, 2) == [([2.0, 2.0], 1), ([2.0, 2.0, 1.0, 1.0, 1.0], 1)]


def disagreements(rank: int, size: int) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match=r'ranks disagree about "allreduce\.odd"'):
        hvd.allreduce(tf.ones([rank + 1]), name="odd")
    with pytest.raises(tf.errors.FailedPreconditionError, match="rank 0 gave all_reduce float32"):
        tf.function(lambda: hvd.allreduce(tf.cast(tf.ones([2]), ["float32", "int32"][rank]), name="kinds"))()
    with pytest.raises(tf.errors.InvalidArgumentError, match="expects 2 splits, none negative"):
        hvd.alltoall(tf.ones([4]), [9, -1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="root rank 9 is not one of the ranks"):
        hvd.broadcast(tf.ones([4]), 9)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a reduction takes float16"):
        hvd.allreduce(tf.ones([4], tf.complex64))
    assert hvd.allreduce(tf.ones([1]), op=hvd.Sum).numpy() == [size], "everything else goes on"


@pytest.mark.smoke
def test_what_ranks_disagree_about_is_an_error_on_all_of_them(ranks: Ranks) -> None:
    ranks(disagreements, 2)
