"""The limits that hold in torch's process groups, and what the errors at their end say."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks

from paceline.errors import Timeout
from paceline.settings.settings import Settings
from paceline.torch.timeouts import limits


@pytest.mark.parametrize(
    ("timeout", "variables", "meeting", "operation"),
    [
        (dist.default_pg_timeout, {}, 1800, 1800),
        (dist.default_pg_timeout, {"PACELINE_TIMEOUT": "20"}, 20, 20),
        (dist.default_pg_timeout, {"PACELINE_TIMEOUT": "20", "PACELINE_START_TIMEOUT": "7"}, 7, 20),
        (dist.default_pg_timeout, {"PACELINE_START_TIMEOUT": "7"}, 7, 1800),
        (timedelta(seconds=60), {"PACELINE_TIMEOUT": "20", "PACELINE_START_TIMEOUT": "7"}, 60, 60),
    ],
)
def test_what_the_script_says_wins(
    timeout: timedelta, variables: dict[str, str], meeting: float, operation: float
) -> None:
    held = limits(Settings.from_environment(variables), timeout)
    assert (held.meeting, held.operation) == (meeting, operation)


def check_effective(rank: int, size: int, seconds: float) -> None:
    world: Any = dist.group.WORLD
    part: Any = dist.new_group([0, 1])
    asked: Any = dist.new_group([0, 1], timeout=timedelta(seconds=50))
    assert [group.options._timeout for group in (world, part, asked)] == [
        timedelta(seconds=some) for some in (seconds, seconds, 50)
    ]


def test_the_variable_holds_in_every_group(ranks: Ranks) -> None:
    ranks(check_effective, seconds=41.0, timeout=1800.0, environment={"PACELINE_TIMEOUT": "41"}, fresh=True)


def check_lines(rank: int, size: int) -> str:
    """Rank 1 is in its own program, not in a collective."""
    dist.barrier()
    store: Any = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    if rank == 1:
        store.wait(["timed out"])
        with suppress(Timeout):  # it may find what rank 0 has left for it
            dist.all_reduce(torch.ones(1))
    with pytest.raises(Timeout) as caught:
        dist.all_reduce(torch.ones(1))
    store.set("timed out", "")
    return str(caught.value)


def test_the_error_names_the_lines_of_who_waits_and_who_is_missing(ranks: Ranks) -> None:
    """On every rank, also where no warning was wanted."""
    variables = {"PACELINE_TIMEOUT": "6", "PACELINE_START_TIMEOUT": "60", "PACELINE_STALL_SECONDS": "0"}
    for words in ranks(check_lines, timeout=1800.0, environment=variables, fresh=True):
        assert re.search(
            r"it waits for rank 1 \(host \S+, pid \d+\); \S+ s before: rank 1 \(host \S+, pid \d+\), now at "
            r"\S*test_timeouts.py:\d+; rank 0 \(host \S+, pid \d+\) waits at \S*test_timeouts.py:\d+$",
            words,
        ), words


PROGRAM = """
import sys, torch.distributed as dist
rank, size, url = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
given = {} if url == "env://" else {"rank": rank, "world_size": size}
dist.init_process_group("paceline", init_method=url, **given)
"""


@pytest.mark.parametrize(("method", "rank"), [("env", 0), ("tcp", 1)])
def test_a_rank_that_never_comes_is_waited_for_as_long_as_the_variable_says(method: str, rank: int) -> None:
    """Rank 0 in the meeting, the other one while nobody serves torch's store."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PACELINE_TIMEOUT")
    env = {name: value for name, value in os.environ.items() if name not in told}
    env |= {"PACELINE_START_TIMEOUT": "2", "PACELINE_STALL_SECONDS": "1"}
    url = f"tcp://127.0.0.1:{port}"
    if method == "env":
        env |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        url = "env://"
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(rank), "2", url], env=env, capture_output=True, text=True, timeout=100
    )
    assert process.returncode == 1
    words = {
        0: r"1/2 joined{}, missing rank 1 \(joined: rank 0 on ",
        1: rf"cannot reach torch's store of rank 0 from 127\.0\.0\.1{{}}: 127\.0\.0\.1:{port}: refused",
    }[rank]
    assert re.search("^stalled [0-9.]+ s: " + words.format(""), process.stderr, re.MULTILINE), process.stderr
    assert re.search("RendezvousError: " + words.format(" within 2 s"), process.stderr), process.stderr
