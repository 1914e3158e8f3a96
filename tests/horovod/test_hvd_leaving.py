"""A rank leaves in good order while the others need it: all of them are told who, whatever they are doing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from horovod_ranks import Ranks

POLICIES = ["board", "graph", "cycle", "global_sleep", "nonblocking"]


def join(rank: int, size: int, leaver: int, told: Path) -> None:
    import paceline.horovod.torch as hvd

    hvd.join()


def wait(rank: int, size: int, leaver: int, told: Path) -> None:
    import paceline.horovod.torch as hvd

    hvd.allreduce(torch.ones(3), name="wanted")


def negotiate(rank: int, size: int, leaver: int, told: Path) -> None:
    import paceline.horovod.torch as hvd

    hvd.allreduce(torch.ones(3), name=f"wanted by rank {rank}")


def join_or_wait(rank: int, size: int, leaver: int, told: Path) -> None:
    (join if rank == (leaver + 1) % size else wait)(rank, size, leaver, told)


def wait_also_for_one_that_is_busy(rank: int, size: int, leaver: int, told: Path) -> None:
    """Who leaves is named although somebody else is missing, too."""
    if rank == (leaver + 1) % size:
        deadline = time.monotonic() + 60
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert told.exists(), "the rank that waits was not told"
        return wait(rank, size, leaver, told)
    try:
        wait(rank, size, leaver, told)
    finally:
        told.touch()


DOINGS: list[Callable[[int, int, int, Path], None]] = [
    join,
    join_or_wait,
    negotiate,
    wait_also_for_one_that_is_busy,
]


def check_leaving(rank: int, size: int, folder: str, cases: list[tuple[int, int]]) -> None:
    """cases: who leaves, and what the others are doing, by its number."""
    import paceline.horovod.torch as hvd

    for leaver, number in cases:
        doing = DOINGS[number]
        hvd.init()
        hvd.allreduce(torch.ones(3), name="before")
        if rank != leaver:
            with pytest.raises(hvd.HorovodInternalError, match=rf"rank {leaver} \(.*\) .*has left") as caught:
                doing(rank, size, leaver, Path(folder) / f"{leaver}-{doing.__name__}")
            assert "timeout" not in str(caught.value)
            for later in (hvd.join, hvd.barrier, lambda: hvd.add_process_set([0])):
                with pytest.raises(hvd.HorovodInternalError, match="has left"):
                    later()
        hvd.shutdown()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["000", "010"])
def test_who_leaves_is_named(ranks: Ranks, policy: str, machines: str, tmp_path: Path) -> None:
    cases = [(leaver, number) for leaver in (0, 2) for number in range(len(DOINGS))]
    if machines != "000":  # where a job takes longer to meet, the first and the last rank leave in turn
        cases = [((0, 2)[(number + POLICIES.index(policy)) % 2], number) for number in range(len(DOINGS))]
    ranks(
        check_leaving,
        3,
        machines=machines,
        environment={"PACELINE_POLICY": policy},
        init=False,
        folder=str(tmp_path),
        cases=cases,
    )


def check_late_join(rank: int, size: int, told: str) -> None:
    import paceline.horovod.torch as hvd

    if rank != 1:
        with pytest.raises(hvd.HorovodInternalError, match=r"join waits for rank 1 \([^,]*, pid \d+\)([,;]|$)"):
            hvd.join()
        Path(told).with_suffix(f".{rank}").touch()
        return
    deadline = time.monotonic() + 60
    others = [Path(told).with_suffix(f".{other}") for other in range(size) if other != rank]
    while not all(other.exists() for other in others) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_join_names_who_has_not_joined(ranks: Ranks, tmp_path: Path) -> None:
    """The other policies are in test_coordinator_errors.cpp."""
    environment = {"PACELINE_POLICY": "graph", "PACELINE_TIMEOUT": "4", "PACELINE_START_TIMEOUT": "60"}
    ranks(check_late_join, 3, environment=environment, machines="001", told=str(tmp_path / "told"))
