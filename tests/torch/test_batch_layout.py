"""Batches in shared memory: whatever structure goes in comes out, cut by ranks; what makes no sense is refused."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import resource
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import default_collate
from torch_ranks import Ranks

from paceline.torch.data import layout
from paceline.torch.data.pool import Pool
from paceline.torch.data.shares import Shares, cuts, spare, split
from paceline.torch.data.slots import Slots
from paceline.torch.data.source import Task, Writer, _collate

TORCH = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
NUMPY = ["float32", "float64", "int32", "uint8", "bool"]


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, Any]:
    """The number of samples, and a batch of so many."""
    rows = draw(st.integers(1, 9))
    shapes = st.lists(st.integers(0, 3), max_size=3)

    def tensor(dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
        return torch.randint(0, 100, (rows, *shape)).to(dtype)

    leaf = st.builds(tensor, st.sampled_from(TORCH), shapes) | st.builds(
        lambda dtype, shape: tensor(torch.uint8, shape).numpy().astype(dtype), st.sampled_from(NUMPY), shapes
    )
    some = st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.lists(inner, min_size=1, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=3) | st.integers(-5, 5), inner, min_size=1, max_size=3)
        ),
        max_leaves=6,
    )
    return rows, draw(some)


def same(left: Any, right: Any, part: slice) -> None:
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype and torch.equal(left, right[part])
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype and np.array_equal(left, right[part])
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            same(left[key], right[key], part)
    else:
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other, part)


@given(batches(), st.data())
def test_what_is_written_is_seen_by_every_rank(batch: tuple[int, Any], data: st.DataObject) -> None:
    rows, value = batch
    planned, tensors = layout.plan(value)
    memory = np.full(planned.nbytes + 1, 255, np.uint8)
    layout.write(planned, tensors, memory)
    fields = json.loads(json.dumps(vars(planned)))
    read = layout.checked(fields["rows"], fields["nbytes"], fields["tree"])
    begin = data.draw(st.integers(0, rows))
    end = data.draw(st.integers(begin, rows))
    same(layout.view(read, memory, begin, end), value, slice(begin, end))
    assert memory[-1] == 255
    assert layout.samples(value) == rows


@given(batches(), st.randoms(use_true_random=False))
def test_a_garbled_description_never_reaches_beyond_the_batch(batch: tuple[int, Any], chance: Any) -> None:
    planned, tensors = layout.plan(batch[1])
    memory = np.zeros(planned.nbytes, np.uint8)
    layout.write(planned, tensors, memory)
    fields = json.loads(json.dumps(vars(planned)))
    garble(fields, chance)
    try:
        found = layout.checked(fields["rows"], fields["nbytes"], fields["tree"])
    except ValueError:
        return
    if found.nbytes <= planned.nbytes:
        layout.view(found, memory, 0, min(found.rows, 3))


def garble(value: Any, chance: Any) -> None:
    """Change one number, text or list somewhere inside."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = chance.choice(keys)
    if isinstance(value[key], (dict, list)) and chance.random() < 0.8:
        garble(value[key], chance)
    else:
        value[key] = chance.choice(
            [-1, 7, 1 << 40, 1 << 70, "float32", "x", None, True, [], {}, copy.deepcopy(value[key])]
        )


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ([torch.ones(2), "name"], r"batch\[1\] is of type str"),
        ({"a": torch.ones(2), "b": torch.ones(3)}, r"batch\['b'\] has 3 samples and batch\['a'\] has 2"),
        ([torch.ones(2), torch.tensor(1)], r"batch\[1\] is a tensor of shape \(\)"),
        ([torch.ones(2).to_sparse()], "sparse"),
        ([np.array(["a", "b"])], "array of dtype <U1"),
        ([], "no tensor"),
    ],
)
def test_what_cannot_be_shared_is_named(batch: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        layout.plan(batch)


@given(st.integers(0, 1000), st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_a_split_is_whole_and_fair(total: int, weights: list[float]) -> None:
    counts = split(total, weights)
    assert sum(counts) == total and min(counts) >= (total >= len(counts))
    exact = [total * weight / sum(weights) for weight in weights]
    if min(exact) >= 1 or total < len(counts):
        assert all(abs(count - share) < 1 for count, share in zip(counts, exact, strict=True))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_cuts_cover_a_batch_once_and_each_rank_has_samples_of_its_own(counts: list[int]) -> None:
    ranks = range(10, 10 + len(counts))
    found = cuts(ranks, counts, sum(counts))
    rows = max(1, sum(counts)) + spare(counts)
    covered = [row for cut in found.values() if cut.samples for row in range(cut.begin, cut.end)]
    assert covered == list(range(sum(counts)))
    assert sorted(row for cut in found.values() for row in range(cut.begin, cut.end)) == list(range(rows))
    assert [found[rank].samples for rank in ranks] == counts


def test_a_list_of_samples_is_no_list_of_fields() -> None:
    images = [torch.zeros(3, 8, 8) for _ in range(3)]
    with pytest.raises(TypeError, match="batch is a list with a tensor for each sample: stack them"):
        layout.require_fields(images, 3, lambda: images[:-1])
    with pytest.raises(TypeError, match=r"batch\['x'\]\[0\] is a list with"):
        layout.require_fields({"x": (images, 1)}, 3, lambda: {"x": (images[:-1], 1)})
    layout.require_fields(images, 3, lambda: [one[:-1] for one in images])  # three fields of three samples
    layout.require_fields(images, 4, lambda: pytest.fail("nothing to find out"))
    with pytest.raises(TypeError, match=r"batch\[0\] is a list of 3 tensors of shape \(3, 8, 8\), as of images: stack"):
        layout.refuse_images((images, torch.zeros(3)))
    layout.refuse_images(tuple(images))
    layout.refuse_images([torch.zeros(8, 3, 4, 4), torch.zeros(8)])


def test_shares_change_from_a_batch_on() -> None:
    shares = Shares([1, 1])
    shares.change(10, [1, 3])
    assert (shares.at(9), shares.at(10), shares.at(99)) == ((1, 1), (1, 3), (1, 3))
    shares.restart()
    assert shares.at(0) == (1, 3)


@given(st.lists(st.tuples(st.sampled_from(["take", "back"]), st.integers(0, 2)), max_size=60))
def test_a_slot_in_use_is_never_taken(steps: list[tuple[str, int]]) -> None:
    pool, used = Pool(), dict[int, set[int]]()
    for what, rank in steps:
        if what == "take":
            slot = pool.take()
            assert slot not in used
            used[slot] = {0, 1, 2}
            pool.lend(slot, used[slot])
        else:
            for slot in [one for one, ranks in used.items() if rank in ranks][:1]:
                used[slot].discard(rank)
                assert pool.give_back(slot, rank) == (not used[slot])
                if not used[slot]:
                    del used[slot]
    assert pool.lent == len(used)


def test_slots_hold_any_batch_and_give_their_memory_back() -> None:
    here, there = Slots(), None
    try:
        there = Slots(os.dup(here.descriptor))
        here.array(5, 5 << 20)[:] = 7
        assert (there.array(5, 5 << 20) == 7).all()
        before = os.fstat(here.descriptor).st_blocks
        here.clear(5, 5 << 20)
        assert before >= (5 << 20) // 512 > os.fstat(here.descriptor).st_blocks
        with pytest.raises(OSError, match="not permitted"):
            os.ftruncate(there.descriptor, 4096)  # would let the others' accesses fail with SIGBUS
    finally:
        here.close()
        if there is not None:
            there.close()


@pytest.mark.parametrize("dtype", TORCH)
def test_samples_that_lie_apart_are_stacked_in_place(dtype: torch.dtype) -> None:
    samples = [(torch.randint(0, 100, (2, 3)).to(dtype), {"label": index}) for index in range(5)]
    planned, tensors = layout.plan(_collate(samples))
    memory = np.empty(planned.nbytes, np.uint8)
    layout.write(planned, tensors, memory)
    same(layout.view(planned, memory, 0, 5), default_collate(samples), slice(None))


SAMPLES, FLOATS = 32, 1 << 18
"""Of a batch of 32 MiB."""
PR_SET_THP_DISABLE = 41
"""From linux/prctl.h: every page faults by itself, whatever the system does with huge ones."""


class Made:
    """Samples in memory that is new for each."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((FLOATS,), float(index))


def write_batches(rank: int, size: int) -> int:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    writer = Writer(Made(), _collate, Slots())
    task = Task(0, tuple(range(SAMPLES)))
    for _ in range(3):
        writer.__getitems__(task)
    counted = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        writer.__getitems__(task)
        counted.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(counted)


def test_an_input_worker_keeps_the_memory_of_its_samples(ranks: Ranks) -> None:
    # A process of its own, since malloc's settings are a process's.
    [faults] = ranks(write_batches, 1, fresh=True)
    pages = SAMPLES * FLOATS * 4 // resource.getpagesize()
    assert faults < pages / 10  # a batch whose samples are faulted in again takes at least so many
