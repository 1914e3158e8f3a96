"""At its timeout a rank is told who waits for nobody, however many others wait in between, and in whichever groups."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from jobs import PROGRAMS, job, words

PROGRAM = PROGRAMS / "waits_for.py"
DEADLINE = 150.0
"""Seconds."""
STOPS = {
    # The groups, and what each rank does; rank 1 is told, at last, of rank 0.
    "a message, then a group": ([[0, 2], [1, 2]], ["stop", ["recv", 1, 2], ["barrier", 0]]),
    "many messages": (
        [[0, 1, 2, 3, 4, 5]],
        ["stop", ["recv", 0, 2], ["send", 0, 3], ["recv", 0, 4], ["recv", 0, 5], ["recv", 0, 0]],
    ),
    "two groups": ([[1, 2], [2, 3], [0, 3]], ["stop", ["barrier", 0], ["barrier", 1], ["barrier", 2]]),
    "names": ([[1, 2], [0, 2]], ["stop", ["named", 0, "a"], ["named", 1, "b"]]),
    "a rank that computes": ([[1, 2], [0, 2]], ["compute", ["barrier", 0], ["recv", 1, 0]]),
}
CIRCLES = {
    # The same, and who waits for each other, each for the next.
    "messages": ([[0, 1, 2]], [["recv", 0, 1], ["recv", 0, 2], ["recv", 0, 0]], [0, 1, 2]),
    "groups": ([[0, 1], [1, 2], [0, 2]], [["barrier", 2], ["barrier", 0], ["barrier", 1]], [0, 2, 1]),
    "others alone": ([[0, 2], [0, 1], [1, 2]], [["recv", 0, 2], ["barrier", 2], ["recv", 0, 0]], [0, 2]),
}


def told(groups: list[list[int]], does: list[Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What rank 1 is told, and what its peers call each rank."""
    machines = "011012"[: len(does)]
    program = json.dumps({"groups": groups, "does": does})
    with job(len(does), PROGRAM, machines, program, output=folder) as running:
        running.processes[1].wait(DEADLINE)
        for process in running.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
    text = (folder / "rank-1.out").read_text()
    assert text, words(folder)
    error = json.loads(text)
    assert error["kind"] == "Timeout"
    host = error["message"].partition("(host ")[2].partition(",")[0]
    return error, [f"rank {rank} (host {host}, pid {process.pid})" for rank, process in enumerate(running.processes)]


@pytest.mark.parametrize("way", STOPS)
def test_who_waits_for_nobody_is_named(way: str, tmp_path: Path) -> None:
    groups, does = STOPS[way]
    error, ranks = told(groups, does, tmp_path)
    through = "through 1 more rank " if way == "many messages" else ""
    assert f", which waits {through}for {ranks[0]}" in error["message"]
    assert (error["rank"], error["pid"]) == (0, int(ranks[0].split("pid ")[1][:-1]))
    assert error["host"] in ranks[0]
    assert error["group"] == groups[does[1][1]]


def test_a_rank_that_computes_beside_a_message_waits_for_nobody(tmp_path: Path) -> None:
    error, ranks = told([[0, 1, 2]], [["beside", 0, 1], ["barrier", 0], ["barrier", 0]], tmp_path)
    assert f"it waits for {ranks[0]}" in error["message"] and "which waits" not in error["message"]
    assert error["rank"] == 0


@pytest.mark.parametrize("way", CIRCLES)
def test_ranks_that_wait_for_each_other_are_all_named_and_none_is_blamed(way: str, tmp_path: Path) -> None:
    groups, does, circle = CIRCLES[way]
    error, ranks = told(groups, does, tmp_path)
    first, last = ", ".join(ranks[rank] for rank in circle[:-1]), ranks[circle[-1]]
    plain = error["message"].replace("group ", "")
    for number in range(len(does)):
        plain = plain.replace(f"rank {number} = rank", "rank")
    assert f"; {first} and {last} wait for each other" in plain
    assert (error["rank"], error["host"], error["pid"]) == (None, None, None)
