"""The tables of `paceline simulate` can be read in a terminal of 80 columns."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console, RenderableType

from paceline.simulate.answer import Answer
from paceline.simulate.job import Step
from paceline.simulate.tables import tables

POLICIES = ("board", "graph", "cycle", "global_sleep", "nonblocking")
STEP = Step(
    seconds=1.234, computation=0.7, delay=0.1, last_rank=0.1, negotiation=0.1, peers=0.034, transfer=0.1, after=0.1,
    spinning=0.0, oversleep=0.0, cycles=1.0, messages=2.0, batches=3.0,
)  # fmt: skip
ANSWER = Answer(
    ranks=24576, policy="global_sleep", algorithm="halving_doubling", step=STEP, times=(0.765, 1.234, 1.49), alone=0.9
)


def lines(what: RenderableType) -> list[str]:
    console = Console(width=10_000, record=True, file=io.StringIO())
    console.print(what)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_every_line_fits_however_much_differs() -> None:
    answers = [
        replace(ANSWER, policy=policy, algorithm=algorithm, network=network)
        for network in ("two, uplink 250 Mbit/s", "two, uplink 500 Mbit/s")
        for algorithm in ("halving_doubling", "ring")
        for policy in POLICIES
    ]
    chosen = [
        replace(ANSWER, policy=policy, algorithm=("ring", "halving_doubling")[place % 2])
        for place, policy in enumerate(POLICIES)
    ]
    for some in (answers, chosen):
        shown = lines(tables(some))
        assert max(map(len, shown)) <= 80
        assert sum("24576  " in line or "24576 " in line for line in shown) == 2 * len(some)
        assert "" not in shown


def test_what_all_rows_share_stands_above_and_what_none_has_is_left_out() -> None:
    step = replace(STEP, negotiation=0.0, peers=0.0, after=0.0)
    answers = [replace(ANSWER, ranks=ranks, step=step, policy="board", algorithm="ring") for ranks in (16, 256)]
    assert lines(tables(answers)) == [
        "policy board, algorithm ring",
        "ranks    step              90 %  batches/s  efficiency",
        "   16  1.23 s  812 ms to 1.46 s         13       72.9%",
        "  256  1.23 s  812 ms to 1.46 s        207       72.9%",
        "of the step:",
        "ranks  computation  delay  last rank  transfer",
        "   16        56.7%   8.1%       8.1%      8.1%",
        "  256        56.7%   8.1%       8.1%      8.1%",
    ]


def test_an_interval_of_one_unit_names_it_once() -> None:
    (row,) = (line for line in lines(tables([replace(ANSWER, times=(0.413, 0.434))])) if " to " in line)
    assert "  414 to 433 ms  " in row
