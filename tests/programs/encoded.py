"""Collectives whose messages between machines are encoded, by every codec and plan.

Arguments: how ranks are spread over machines, e.g. "00111"; the numbers of elements, or none for the usual ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

COUNTS = (16_385, 100_003, 300_007)
CALLS = 12
Floats = NDArray[np.float32]


def gradients(rank: int, count: int) -> Floats:
    return np.random.default_rng(rank).standard_normal(count, np.float32)


def whole_numbers(rank: int, count: int) -> Floats:
    """Whose sums are bfloat16s, so that they lose nothing on their way."""
    return ((np.arange(count) * 7 + rank * 5) % 9).astype(np.float32)


def loss(codec: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that one encoding may change each of these values by."""
    size, largest = np.abs(value), float(np.abs(value).max())
    bounds = {
        "bf16": size / 256,
        "fp16": size / 2048,
        "three_in_one": size / 64 + 2.0**-15,
        "int8": np.full_like(size, largest / 127),
        "int4": np.full_like(size, largest / 7),
        "lossless": np.zeros_like(size),
    }
    return bounds[codec]


def main(machines: str, counts: Sequence[int]) -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline
    from paceline import _engine

    group = paceline.init(timeout=60)
    ranks = range(group.size)
    codecs = [name for name, number in _engine.CODECS.items() if number and _engine.encodes(number, FLOAT32)]
    assert codecs

    def check_same(array: Floats, case: object) -> None:
        everyone = np.empty((group.size, array.size), np.float32)
        group.all_gather(everyone, array)
        assert (everyone.view(np.uint32) == array.view(np.uint32)).all(), case

    for count in counts:
        inputs = [gradients(rank, count) for rank in ranks]
        exact = np.sum(inputs, axis=0, dtype=np.float64)
        # Partial sums are encoded, too: each is no more than all sizes together.
        most = np.sum(np.abs(inputs), axis=0, dtype=np.float64)
        for codec in codecs:
            case = (codec, count)
            bound = (group.size + 1) * (loss(codec, most) + 1e-6 * most.max())
            for op, divisor in (("sum", 1), ("avg", group.size)):
                array = inputs[group.rank].copy()
                group.all_reduce(array, op, codec=codec)
                check_same(array, case)
                assert (np.abs(array.astype(np.float64) * divisor - exact) <= bound).all(), (*case, op)
            root = count % group.size
            array = inputs[group.rank].copy()
            group.broadcast(array, root, codec=codec)
            check_same(array, case)
            assert (np.abs(array - inputs[root].astype(np.float64)) <= loss(codec, inputs[root]) + 1e-7).all(), case
    for codec in codecs:
        if codec in ("bf16", "fp16", "lossless"):
            check_exact(group, codec, counts)
        check_feedback(group, codec)
    check_arguments(group)
    group.close()


FLOAT32 = 2


def check_exact(group: object, codec: str, counts: Sequence[int]) -> None:
    from paceline.group.group import Group

    assert isinstance(group, Group)
    for count in counts:
        inputs = [whole_numbers(rank, count) for rank in range(group.size)]
        array = inputs[group.rank].copy()
        group.all_reduce(array, codec=codec)
        assert np.array_equal(array, np.sum(inputs, axis=0)), (codec, count)
        everything = np.empty(count * group.size, np.float32)
        group.all_gather(everything, inputs[group.rank], codec=codec)
        assert np.array_equal(everything, np.concatenate(inputs)), (codec, count)
        in_place = np.zeros_like(everything)
        mine = in_place[group.rank * count : (group.rank + 1) * count]
        mine[:] = inputs[group.rank]
        group.all_gather(in_place, mine, codec=codec)
        assert np.array_equal(in_place, everything), (codec, count)
        part = np.empty(count, np.float32)
        group.reduce_scatter(part, everything, codec=codec)
        assert np.array_equal(part, inputs[group.rank] * group.size), (codec, count)


def check_feedback(group: object, codec: str) -> None:
    """The mean of many calls comes as close to the truth as one call's loss divided by their number."""
    from paceline.group.group import Group

    assert isinstance(group, Group)
    count = 50_001
    inputs = [gradients(rank, count) for rank in range(group.size)]
    exact = np.sum(inputs, axis=0, dtype=np.float64)

    def check(call: Callable[[Floats], Floats], size: int, right: NDArray[np.float64]) -> None:
        residual, total = np.zeros(size, np.float32), np.zeros(right.size)
        worst = []
        for _ in range(CALLS):
            total += call(residual)
            worst.append(float(np.abs(total / (len(worst) + 1) - right).max()))
        assert worst[-1] <= 3 * worst[0] / CALLS + 1e-5, (codec, worst)
        lost = np.abs(residual).astype(np.float64)  # a rank that encodes nothing loses nothing
        group.all_reduce(lost)
        assert lost.any() == (codec != "lossless"), codec

    def all_reduce(residual: Floats) -> Floats:
        array = inputs[group.rank].copy()
        group.all_reduce(array, codec=codec, residual=residual)
        return array

    def reduce_scatter(residual: Floats) -> Floats:
        part = np.empty(part_of, np.float32)
        group.reduce_scatter(part, inputs[group.rank][: part_of * group.size], codec=codec, residual=residual)
        return part

    part_of = count // group.size
    check(all_reduce, count, exact)
    check(reduce_scatter, part_of * group.size, exact[group.rank * part_of : (group.rank + 1) * part_of])


def check_arguments(group: object) -> None:
    from paceline.group.group import Group

    assert isinstance(group, Group)
    array = np.zeros(20_000, np.float32)
    for call, kind, words in (
        (lambda: group.all_reduce(array, codec="zip"), ValueError, "no such codec: 'zip'; use one of none, bf16"),
        (lambda: group.all_reduce(array, "max", codec="bf16"), ValueError, "bf16 encodes sums and means of float32"),
        (lambda: group.all_reduce(np.zeros(9), codec="bf16"), ValueError, "not SUM of float64"),
        (
            lambda: group.all_reduce(array, codec="bf16", residual=np.zeros(20_000)),
            TypeError,
            "a residual is of dtype float32, not float64",
        ),
        (
            lambda: group.all_reduce(array, codec="bf16", residual=np.zeros(3, np.float32)),
            ValueError,
            "the residual must hold 20000 elements as the array does, not 3",
        ),
    ):
        with pytest.raises(kind, match=words):
            call()
    group.barrier()


if __name__ == "__main__":
    main(sys.argv[1], [*map(int, sys.argv[2:])] or COUNTS)
