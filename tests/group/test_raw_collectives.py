"""The raw face: every collective on every arrangement of ranks and machines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import PROGRAMS, run

import paceline
from paceline.errors import ConfigurationError
from paceline.group.buffers import read, write
from paceline.process.current import runtime
from paceline.version import VERSION


@pytest.mark.parametrize(
    "machines", ["0", "00", pytest.param("01", marks=pytest.mark.smoke), "000", "0011", "0120", "00000"]
)
def test_every_collective(machines: str, tmp_path: Path) -> None:
    run(len(machines), PROGRAMS / "every_collective.py", machines, output=tmp_path)


@pytest.mark.parametrize("machines", ["00", "000", "0011"])
def test_from_one_buffer_to_another(machines: str, tmp_path: Path) -> None:
    run(len(machines), PROGRAMS / "out_of_place.py", machines, output=tmp_path)


@pytest.mark.long
def test_more_than_four_gibibytes(tmp_path: Path) -> None:
    run(2, PROGRAMS / "giant.py", output=tmp_path)


def test_no_framework_is_imported(tmp_path: Path) -> None:
    run(2, PROGRAMS / "without_framework.py", output=tmp_path, imports=None)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_arrays_in_the_arena(ranks: int, tmp_path: Path) -> None:
    run(ranks, PROGRAMS / "shared_arrays.py", output=tmp_path)


def test_what_is_not_an_array_is_refused() -> None:
    with pytest.raises(TypeError, match="expected an array"):
        read(3)
    with pytest.raises(TypeError, match="dtype complex64 is not supported; use one of float16"):
        read(np.zeros(3, np.complex64))
    with pytest.raises(TypeError, match="dtype >f4"):
        read(np.zeros(3, ">f4"))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        write(frozen)


class Lent:
    """Lends a DLPack capsule, of the version that `wishes` ask for."""

    def __init__(self, array: np.ndarray, **wishes: Any) -> None:
        self.capsule = array.__dlpack__(**wishes)

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_dlpack_objects_are_used_where_they_lie() -> None:
    array = np.arange(3, dtype=np.float32)
    assert write(Lent(array, max_version=(1, 0))).address == array.ctypes.data
    assert read(Lent(array)).address == array.ctypes.data
    with pytest.raises(ValueError, match=r"read-only, .*; NumPy takes as read-only whatever .* DLPack before 1\.0$"):
        write(Lent(array))
    lent = Lent(array)
    read(lent)
    with pytest.raises(TypeError, match=r"^NumPy cannot take this Lent by DLPack: PyCapsule_GetPointer called with"):
        read(lent)  # a capsule serves once
    with pytest.raises(TypeError, match=r"expected an array .*, got PyCapsule"):
        read(array.__dlpack__())


def test_impossible_arrays_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"no negative lengths, got \(2, -3\)"):
        paceline.empty((2, -3))
    with pytest.raises(MemoryError, match="no room for 4000000000000000 bytes in this process's arena"):
        paceline.empty(10**15)


@pytest.mark.parametrize(
    ("rank", "size", "timeout", "complaint"),
    [
        (0, None, None, "give both rank and size, or neither"),
        (2, 2, None, "rank must be from 0 to size - 1, got rank 2 of 2"),
        (0, 1, 0, "timeout must be more than 0 seconds, got 0"),
        (0, 1, float("nan"), "timeout must be more than 0 seconds, got nan"),
    ],
)
def test_a_job_that_cannot_be_joined_is_refused_at_once(
    rank: int, size: int | None, timeout: float | None, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{complaint}$"):
        paceline.init(rank, size, timeout)


def test_it_tells_its_version() -> None:
    assert paceline.__version__ == VERSION


def test_wrong_arguments_get_one_sentence() -> None:
    with paceline.init(0, 1, timeout=10) as group:
        array = np.zeros(4, np.float32)
        with pytest.raises(ValueError, match="no such reduction: 'mean'; use one of sum, avg"):
            group.all_reduce(array, "mean")
        with pytest.raises(ValueError, match="BXOR is not defined for float32"):
            group.all_reduce(array, "bxor")
        with pytest.raises(ValueError, match="the root must be a rank from 0 to 0, got 1"):
            group.broadcast(array, 1)
        with pytest.raises(ValueError, match="output must hold 4 elements, not 3"):
            group.all_gather(np.zeros(3, np.float32), array)
        with pytest.raises(TypeError, match="must have the same dtype, not int32 and float32"):
            group.all_gather(np.zeros(4, np.int32), array)
        with pytest.raises(TypeError, match="color must be a whole number, got 'a'"):
            group.split("a")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="key must fit into 64 bits, got 9223372036854775808"):
            group.split(0, 1 << 63)
        with pytest.raises(ValueError, match="add up to 4"):
            group.all_to_all(array.copy(), array, [5], [4])
        with pytest.raises(TypeError, match=r"^output counts must be a whole number for every rank, got 4$"):
            group.all_to_all(array.copy(), array, 4, [4])  # type: ignore[arg-type]
    runtime().close()


NO_NUMBERS: dict[str, Callable[[Any, Any], object]] = {
    "factor must be a number, got 'x'": lambda group, array: group.all_reduce(array, factor="x"),
    "factor must be a number, got None": lambda group, array: group.all_reduce(array, factor=None, async_op=True),
    "factor must be a number, got '2'": lambda group, array: group.reduce(array, factor="2"),
    "factor must be a number, got []": lambda group, array: group.reduce_scatter(array, array.copy(), factor=[]),
    "root must be a whole number, got '0'": lambda group, array: group.broadcast(array, root="0"),
    "root must be a whole number, got 1.5": lambda group, array: group.broadcast(array, root=1.5, async_op=True),
    "root must be a whole number, got None": lambda group, array: group.reduce(array, root=None),
    "root must be a whole number, got 'a'": lambda group, array: group.gather(array, array.copy(), root="a"),
    "root must be a whole number, got [0]": lambda group, array: group.scatter(array, array.copy(), root=[0]),
    "peer must be a whole number, got '1'": lambda group, array: group.send(array, "1"),
    "peer must be a whole number, got 0.5": lambda group, array: group.recv(array, 0.5),
    "source must be a whole number, got '2'": lambda group, array: group.sendrecv(array, 0, array.copy(), "2"),
    "tag must be a whole number, got 'b'": lambda group, array: group.send(array, 0, "b"),
    "each of input counts must be a whole number, got 4.0": lambda group, array: group.all_to_all(
        array, array.copy(), [4], [4.0]
    ),
    "timeout must be a number, got '3'": lambda group, array: group.barrier(async_op=True).wait("3"),
    "timeout must be a number, got '4'": lambda group, array: paceline.init(0, 1, "4"),  # type: ignore[arg-type]
    "rank must be a whole number, got '0'": lambda group, array: paceline.init("0", 1),  # type: ignore[arg-type]
}


def test_what_is_no_number_is_refused_by_its_name_and_harms_nobody() -> None:
    with paceline.init(0, 1, timeout=10) as group:
        array = np.ones(4, np.float32)
        for sentence, call in NO_NUMBERS.items():
            with pytest.raises(TypeError, match=f"^{re.escape(sentence)}$"):
                call(group, array)
        with pytest.raises(ValueError, match=f"^root must fit into 32 bits, got {1 << 31}$"):
            group.broadcast(array, 1 << 31)
        with pytest.raises(ValueError, match=r"^no such reduction: \[3\]; use one of sum, avg"):
            group.all_reduce(array, [3])  # type: ignore[arg-type]
        group.all_reduce(array, "premul_sum", factor=np.float32(3))  # type: ignore[arg-type]
        group.broadcast(array, np.int64(0))  # type: ignore[arg-type]
        assert (array == 3).all()
    runtime().close()
