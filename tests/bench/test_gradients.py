"""The check of encoded results: what codecs may do passes whatever the plan, and more than that is counted."""

from __future__ import annotations

import numpy as np
import pytest
from benched import refused
from hypothesis import given
from hypothesis import strategies as st

from paceline.group import codecs
from paceline_bench.ranks.case import Case, aligned
from paceline_bench.ranks.gradients import Gradients

SEED = 5
ELEMENTS = 20_000


def loaded(collective, ranks, codec, seed=SEED, root=0):
    cases = [Case(collective, "float32", "avg", ELEMENTS, root, rank, ranks, codec) for rank in range(ranks)]
    everybody = [Gradients(case, aligned) for case in cases]
    for buffers in everybody:
        buffers.load(seed)
    return everybody


def coded(values, codec, begin=0):
    """The values as they are decoded on the other side, where a range begins at `begin`."""
    parts = [part for part in np.split(values, [begin]) if part.size]
    return np.concatenate([codecs.decode(codecs.encode(part, codec), codec, part.size) for part in parts])


def average(everybody, codec, machines, begin=0, chained=False):
    """Encode what leaves a machine, its own sum or that of all machines so far, and then the outcome."""
    inputs = [buffers.source.copy() for buffers in everybody]
    total = np.zeros(ELEMENTS, np.float32)
    for number, machine in enumerate(sorted(set(machines))):
        own = np.sum([one for one, there in zip(inputs, machines, strict=True) if there == machine], axis=0)
        if chained:
            total = coded(total, codec, begin) + own
        else:
            total += coded(own, codec, begin) if number else own
    outcome = coded(total / np.float32(len(inputs)), codec, begin)
    for buffers in everybody:
        buffers.target[:] = outcome


@given(
    codec=st.sampled_from(codecs.CODECS),
    machines=st.lists(st.integers(0, 3), min_size=2, max_size=6),
    seed=st.integers(0, 1000),
    begin=st.sampled_from([0, 1, 100, 8191, 12_345]),
    chained=st.booleans(),
)
def test_what_a_codec_may_do_passes(codec, machines, seed, begin, chained):
    everybody = loaded("all_reduce", len(machines), codec, seed)
    average(everybody, codec, machines, begin, chained)
    assert [buffers.count_wrong(seed) for buffers in everybody] == [0] * len(machines)


@pytest.mark.parametrize("codec", codecs.CODECS)
def test_a_broadcast_is_encoded_once(codec):
    everybody = loaded("broadcast", 3, codec, root=1)
    sent = coded(everybody[1].source.copy(), codec)
    for buffers in everybody:
        buffers.target[:] = sent
    assert [buffers.count_wrong(SEED) for buffers in everybody] == [0, 0, 0]
    everybody[2].target[7] += np.float32(1e-2)
    everybody[2].target[9] = np.nan
    assert [buffers.count_wrong(SEED) for buffers in everybody] == [0, 0, 2]


@pytest.mark.parametrize("codec", ["none", "lossless"])
def test_a_broadcast_that_loses_nothing_is_checked_bit_for_bit(codec):
    (buffers, *_) = loaded("broadcast", 2, codec)
    buffers.target[3] = np.nextafter(buffers.target[3], np.float32(1))
    assert buffers.count_wrong(SEED) == 1


@pytest.mark.parametrize("codec", codecs.CODECS)
@pytest.mark.parametrize("collective", ["all_reduce", "broadcast"])
def test_doing_nothing_is_wrong(codec, collective):
    last = loaded(collective, 2, codec)[1]
    assert last.count_wrong(SEED) > ELEMENTS / 4


@pytest.mark.parametrize(
    ("codec", "coarser"),
    [("none", "fp16"), ("lossless", "fp16"), ("fp16", "bf16"), ("bf16", "three_in_one"), ("int8", "int4")],
)
def test_another_codec_that_loses_more_is_wrong(codec, coarser):
    (buffers, *_) = loaded("broadcast", 2, codec)
    buffers.target[:] = coded(buffers.source.copy(), coarser)
    assert buffers.count_wrong(SEED) > ELEMENTS / 20


@pytest.mark.parametrize("codec", codecs.CODECS)
def test_timed_data_stay_as_they_are_however_often_they_are_averaged(codec):
    everybody = loaded("all_reduce", 5, codec)
    for buffers in everybody:
        buffers.clear()
    average(everybody, codec, "00111")
    before = everybody[0].target.std()
    for _ in range(100):
        average(everybody, codec, "00111")
    assert 0.9 * before < everybody[0].target.std() < 1.1 * before
    assert np.isfinite(everybody[0].target).all()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["all_reduce", "--paths", "engine", "--codecs", "zip"], "three_in_one, int8"),
        (["all_reduce", "--codecs", "bf16"], "needs --paths engine"),
        (["all_reduce", "--paths", "engine", "--codecs", "bf16", "--against", "gloo"], "without --against and --limit"),
        (["all_reduce", "--paths", "engine", "--codecs", "bf16", "--op", "max"], "all_reduce averages"),
        (["all_reduce", "--paths", "engine", "--codecs", "bf16", "--dtype", "float64"], "works for float32"),
        (["all_gather", "--paths", "engine", "--codecs", "bf16"], "works for all_reduce and broadcast only"),
    ],
)
def test_what_is_not_measured_with_codecs_is_refused(words, expected):
    assert expected in refused(*words)
