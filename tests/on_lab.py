"""Ranks on the machines of a lab: forked there, see `jobs.WarmJob`, or started one by one, and talked to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from jobs import words
from warm_python import WarmPython

from paceline.lab.lab import Lab

PORT = "28541"
Process = subprocess.Popen[str]


@contextmanager
def warm_on(lab: Lab, imports: Sequence[str]) -> Iterator[list[WarmPython]]:
    """A process on each of the machines that has imported these modules, and forks others there."""
    with ExitStack() as stack:
        machines = range(len(lab.machines))
        yield [stack.enter_context(closing(WarmPython(imports, lab.exec(machine)))) for machine in machines]


def environment(lab: Lab, places: Sequence[int], rank: int) -> dict[str, str]:
    """Of this rank, where rank r is on machine places[r]."""
    machine = places[rank]
    return {
        **os.environ,
        **lab.environment(machine),
        "RANK": str(rank),
        "WORLD_SIZE": str(len(places)),
        "LOCAL_RANK": str(places[:rank].count(machine)),
        "LOCAL_WORLD_SIZE": str(places.count(machine)),
        "MASTER_ADDR": lab.machines[0].address,
        "MASTER_PORT": PORT,
    }


def run_on(
    lab: Lab,
    warm: Sequence[WarmPython],
    places: Sequence[int],
    program: Path,
    *arguments: str,
    output: Path,
    deadline: float = 140,
    **settings: str,
) -> None:
    """Run the program to its end, with rank r forked on machine places[r]; what ranks write goes to `output`.

    Fails with what they wrote if one of them fails.
    """
    output.mkdir(exist_ok=True)
    ranks = []
    try:
        for rank, machine in enumerate(places):
            env = {**environment(lab, places, rank), **settings}
            files = output / f"rank-{rank}.out", output / f"rank-{rank}.err"
            ranks.append(warm[machine].start([str(program), *arguments], env, *files))
        codes = [rank.wait(deadline) for rank in ranks]
    finally:
        for one in ranks:
            one.kill()
    assert codes == [0] * len(places), words(output)


@contextmanager
def ranks_on(
    lab: Lab,
    places: Sequence[int],
    program: Path,
    *arguments: str,
    under: Sequence[str] = (),
    **settings: str,
) -> Iterator[list[Process]]:
    """Rank r on machine places[r], with pipes to it and these variables; killed at the end.

    under: words of the command that starts each of them.
    """
    with ExitStack() as stack:
        ranks = []
        for rank, machine in enumerate(places):
            ranks.append(
                stack.enter_context(
                    subprocess.Popen(
                        [*under, *lab.exec(machine), sys.executable, str(program), *arguments],
                        env={**environment(lab, places, rank), **settings},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
            )
            stack.callback(ranks[-1].kill)
        yield ranks


def heard(rank: Process, line: str) -> None:
    """Waits for this line on its standard output."""
    assert rank.stdout is not None
    said = rank.stdout.readline()
    assert said == f"{line}\n", said or rank.communicate(timeout=30)[1]


def ended(ranks: Sequence[Process], word: str | None = None, deadline: float = 150) -> tuple[list[str], list[str]]:
    """What they wrote until their ends, on standard output and standard error; `word` is said to each of them first."""
    said = [rank.communicate(word, timeout=deadline) for rank in ranks]
    return [out for out, _ in said], [err for _, err in said]
