"""Objects that go from rank to rank: data comes back the same, anything else is refused by name."""

from __future__ import annotations

import argparse
import gc
import math
import weakref
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from horovod_ranks import Ranks
from hypothesis import given
from hypothesis import strategies as st

from paceline.horovod.plain_data import pack, unpack

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text()) | st.binary()
DATA = st.recursive(
    LEAVES | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4).map(OrderedDict)
        | st.dictionaries(KEYS, st.integers(), max_size=4).map(Counter)
        | st.sets(KEYS, max_size=4)
        | st.frozensets(KEYS, max_size=4)
    ),
    max_leaves=12,
)


def there_and_back(value: Any) -> Any:
    header, blobs = pack(value)
    return unpack(header, [blob.copy() for blob in blobs])


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=True)
        return len(a) == len(b) and all(same(x, y) for one, other in pairs for x, y in zip(one, other, strict=True))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@given(DATA)
def test_data_comes_back_the_same(value: Any) -> None:
    assert same(there_and_back(value), value)


def test_what_a_schedule_knows() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    for schedule in (
        torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7, 7]),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
    ):
        state = schedule.state_dict()
        assert there_and_back(state) == state and type(there_and_back(state)) is dict


def test_numbers_and_arrays() -> None:
    assert math.isnan(there_and_back(math.nan))
    assert there_and_back([math.inf, -0.0, 10**40, range(3, 9, 2), bytearray(b"x")]) == [
        math.inf,
        -0.0,
        10**40,
        range(3, 9, 2),
        bytearray(b"x"),
    ]
    for array in (
        np.arange(6).reshape(2, 3).T,
        np.array(2.5, np.float16),
        np.empty((0, 3)),
        np.array(["ab", "c"]),
        np.array([1 + 2j]),
    ):
        back = there_and_back({"a": array})["a"]
        assert back.dtype == array.dtype and back.shape == array.shape and np.array_equal(back, array)
        back[...] = back
    scalar = there_and_back(np.float32(1.5))
    assert type(scalar) is np.float32 and scalar == 1.5


class Trap:
    def __reduce__(self) -> Any:
        raise AssertionError("pickled")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"args": argparse.Namespace(lr=1)}, r"object\['args'\] is a argparse.Namespace, which is not sent.*vars\("),
        ([1, (2, Trap())], r"object\[1\]\[1\] is a .*Trap, which is not sent between ranks"),
        ({print: 1}, "object key 0 is a builtins.builtin_function_or_method"),
        (defaultdict(int), "object is a collections.defaultdict"),
        (np.array([None]), "object is a numpy.ndarray"),
        (int, "object is a builtins.type"),
    ],
)
def test_what_is_no_data_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(TypeError, match=place):
        pack(value)


def test_what_holds_itself_is_refused() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(TypeError, match="holds itself"):
        pack(knot)


def test_a_header_that_nobody_wrote_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown tag 'os\.system'"):
        unpack(b'[["os.system","ls"],[]]', [])
    with pytest.raises(ValueError, match="not data"):
        unpack(b'[["array",["O",[1]],0],[8]]', [np.zeros(8, np.uint8)])


def test_memory_is_held_no_longer_than_the_object() -> None:
    value = [np.arange(100)]
    gc.disable()
    try:
        header, blobs = pack(value)
        array = weakref.ref(value[0])
        del value[0], blobs
        assert array() is None
        blob = np.zeros(800, np.uint8)
        copy, memory = unpack(header, [blob]), weakref.ref(blob)
        del copy, blob
        assert memory() is None
    finally:
        gc.enable()


def check_objects(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    torch.manual_seed(5)
    model = torch.nn.Linear(3, 2)
    value = {
        "hello": 123,
        0: [1, (2.5, None)],
        "state": model.state_dict(),
        "parameter": model.weight,
        "half": torch.ones(2, 0, dtype=torch.bfloat16),
        "whole": torch.tensor(7),
        "array": np.arange(5),
        "dtype": torch.float16,
        "shape": torch.Size([2, 3]),
        "text": "ü" * 1000,
    }
    for root in range(size):
        got = hvd.broadcast_object(value if rank == root else None, root)
        assert (got is value) == (rank == root)
        assert got["hello"] == 123 and got[0] == [1, (2.5, None)] and got["text"] == "ü" * 1000
        assert torch.equal(got["state"]["weight"], model.weight) and type(got["parameter"]) is torch.nn.Parameter
        assert got["half"].shape == (2, 0) and got["half"].dtype == torch.bfloat16 and got["whole"].item() == 7
        assert got["array"].tolist() == [0, 1, 2, 3, 4]
        assert got["dtype"] is torch.float16 and got["shape"] == torch.Size([2, 3])
    assert hvd.broadcast_object([], 0, name="empty") == []
    mine = {"metric": rank, "tensor": torch.full((rank, 2), rank)}
    everyone = hvd.allgather_object(mine)
    assert [each["metric"] for each in everyone] == list(range(size))
    assert [tuple(each["tensor"].shape) for each in everyone] == [(other, 2) for other in range(size)]
    for call in (
        lambda: hvd.broadcast_object(Trap() if rank == 1 else None, 1),
        lambda: hvd.allgather_object(Trap() if rank == 1 else 3),
    ):
        with pytest.raises(TypeError, match=r"rank 1.*: object is a .*Trap, which is not sent between ranks"):
            call()
    assert hvd.broadcast_object("alive", 0) == "alive"


def test_objects_between_ranks(ranks: Ranks) -> None:
    ranks(check_objects, 3)
