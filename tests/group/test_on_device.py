"""The raw face takes arrays in device memory. No device is needed: a library of the driver's name stands for one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from jobs import PROGRAMS, job, run, words

from paceline.group.on_device import on_device

STAND_IN = Path(__file__).parents[2] / "build" / "engine" / "double"
"""The folder of the stand-in for NVIDIA's driver, which is built beside the engine for tests."""


@pytest.mark.parametrize(
    ("ranks", "asked"), [(2, ["kernels"]), (4, ["kernels"]), (4, ["kernels", "pairs"]), (2, []), (2, ["apart"])]
)
def test_all_collectives(ranks: int, asked: list[str], tmp_path: Path) -> None:
    assert (STAND_IN / "libcuda.so.1").exists()
    env = {"LD_LIBRARY_PATH": str(STAND_IN), "PACELINE_CUDA": "engine"}
    run(ranks, PROGRAMS / "on_device.py", *asked, output=tmp_path, env=env)


@pytest.mark.parametrize("how", ["together", "early", "killed"])
def test_programs_that_end_with_work_under_way(how: str, tmp_path: Path) -> None:
    env = {"LD_LIBRARY_PATH": str(STAND_IN), "PACELINE_CUDA": "engine"}
    with job(2, PROGRAMS / "leaving_device.py", how, output=tmp_path, env=env) as running:
        assert running.wait(200) == (128 + signal.SIGKILL if how == "killed" else 0), words(tmp_path)
        assert running.processes[0].returncode == 0, words(tmp_path)
    assert (tmp_path / "rank-0.out").read_text() == "done\n"


@pytest.mark.parametrize("wish", ["nccl", None])
def test_none_is_served_unless_somebody_asks_for_it(wish: str | None, tmp_path: Path) -> None:
    env = {"LD_LIBRARY_PATH": str(STAND_IN), **({"PACELINE_CUDA": wish} if wish else {})}
    run(2, PROGRAMS / "on_device.py", "unasked", output=tmp_path, env=env)


def test_other_arrays_are_not_of_a_device() -> None:
    for value in (3, "words", [1.0], memoryview(b"x")):
        assert on_device(value) is None


def test_zero_stands_for_no_stream() -> None:
    class Array:
        @property
        def __cuda_array_interface__(self) -> dict[str, object]:
            return {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 2}

    seen = on_device(Array())
    assert seen is not None
    assert (seen.address, seen.count, seen.stream) == (4096, 6, 1)
