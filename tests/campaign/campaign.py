"""Does to real jobs what befalls jobs, at moments drawn from a seed, and judges what comes of it.

    PYTHONPATH=tests python tests/campaign/campaign.py --seed 1 --minutes 10 --json rows.json

It prints a line for each fault and phase, and every trial that comes out wrong with the command that runs it again.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import left_behind
from jobs import RAW, TORCH
from network import Network, network
from stage import perform, prepare
from trials import FAULTS, Trial, drawn
from verdicts import Verdict, judged

from paceline.lab.namespaces import Unavailable

LINE = "{:24}{:9}{:9}{:>6}{:>7}{:>7}{:>7}{:>6}{:>10}{:>12}{:>12}"
NUMBERS = ("trials", "right", "wrong", "hung", "leftovers")


@dataclass
class Row:
    """Trials of a fault in a phase, through a face, with so many ranks.

    named: see Verdict, of all of them. slowest, failing: the commands that run these again.
    """

    fault: str
    phase: str
    face: str
    ranks: int
    trials: int = 0
    right: int = 0
    wrong: int = 0
    hung: int = 0
    leftovers: int = 0
    named: list[float] = field(default_factory=list)
    slowest: str = ""
    failing: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, again: str) -> None:
        """Count one. again: the command that runs it again."""
        if verdict.named and max(verdict.named) >= max(self.named, default=0.0):
            self.slowest = again
        self.trials += 1
        self.right += verdict.right
        self.wrong += bool(verdict.wrong)
        self.hung += verdict.hung
        self.leftovers += bool(verdict.left)
        self.named += verdict.named
        if not verdict.right:
            self.failing.append(again)

    def figures(self) -> dict[str, Any]:
        """The row as JSON has it."""
        kept = {name: value for name, value in asdict(self).items() if name != "named"}
        p50 = round(median(self.named), 4) if self.named else None
        return {**kept, "named_p50_s": p50, "named_max_s": round(max(self.named), 4) if self.named else None}


class Campaign:
    """Runs trials and keeps the figures. network: where faults of networks happen."""

    def __init__(self, network: Network | None) -> None:
        self.rows: dict[tuple[str, str, str, int], Row] = {}
        self._network = network

    def run(self, trial: Trial) -> Verdict:
        """Run one, and print what is wrong with it."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as name:
            record = perform(trial, Path(name), self._network)
        verdict = judged(trial, record)
        key = (trial.fault, trial.phase, trial.face, len(trial.machines))
        row = self.rows.setdefault(key, Row(*key))
        again = f"make campaign ARGS='--only {trial.seed} --faults \"{trial.fault}\"'"
        row.add(verdict, again)
        if not verdict.right:
            left = [f"left behind: {one}" for one in verdict.left]
            hung = [f"hung; stacks:\n{record.stacks}"] if verdict.hung else []
            print("\n".join([f"{trial}", *verdict.wrong, *left, *hung, f"again: {again}"]), flush=True)
        return verdict

    def table(self) -> list[str]:
        """A line for each fault and phase, whatever the face and the number of ranks."""
        merged: dict[tuple[str, str], Row] = {}
        for row in self.rows.values():
            one = merged.setdefault((row.fault, row.phase), Row(row.fault, row.phase, "all", 0))
            for name in NUMBERS:
                setattr(one, name, getattr(one, name) + getattr(row, name))
            one.named += row.named
        lines = [LINE.format("fault", "phase", "face", *NUMBERS, "", "named_p50_s", "named_max_s")]
        for row in [*merged.values(), self._all()]:
            figures = row.figures()
            times = [
                ("" if figures[name] is None else f"{figures[name]:.3f}") for name in ("named_p50_s", "named_max_s")
            ]
            lines.append(LINE.format(row.fault, row.phase, row.face, *(str(figures[n]) for n in NUMBERS), "", *times))
        return lines

    def _all(self) -> Row:
        whole = Row("all", "", "", 0)
        for row in self.rows.values():
            for name in NUMBERS:
                setattr(whole, name, getattr(whole, name) + getattr(row, name))
            whole.named += row.named
        return whole

    def json(self) -> str:
        """The rows: JSON."""
        return json.dumps([row.figures() for row in self.rows.values()], indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run trials of every fault in turn until time is up, and return 1 if one came out wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="for all faults together")
    parser.add_argument("--faults", nargs="+", metavar="FAULT", default=list(FAULTS), help="only these")
    parser.add_argument("--only", type=int, metavar="SEED", help="the one trial of this seed of each of the faults")
    parser.add_argument("--first", action="store_true", help="stop at the first trial that comes out wrong")
    parser.add_argument("--json", type=Path, help="write the rows here, too")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.faults) - set(FAULTS):
        parser.error(f"there are the faults {', '.join(FAULTS)}, not {', '.join(unknown)}")
    left_behind.mark()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what was started ends, too
    with ExitStack() as stack:
        faults, lab = asked.faults, None
        if any(FAULTS[fault].place == "network" for fault in faults):
            try:
                lab = stack.enter_context(network())
            except Unavailable as error:
                print(f"without the faults of networks: {error}", flush=True)
                faults = [fault for fault in faults if FAULTS[fault].place != "network"]
        for kind in (RAW, TORCH):
            prepare(kind)
        campaign = Campaign(lab)
        if asked.only is not None:
            verdicts = [campaign.run(drawn(asked.only, fault)) for fault in faults]
        else:
            end = time.monotonic() + 60 * asked.minutes
            verdicts = list(_until(campaign, faults, asked.seed, end, asked.json, asked.first))
    print("\n".join(campaign.table()))
    if asked.json:
        asked.json.write_text(campaign.json())
    return int(not all(verdict.right for verdict in verdicts))


def _until(
    campaign: Campaign, faults: Sequence[str], seed: int, end: float, file: Path | None, first: bool
) -> Iterator[Verdict]:
    """Run trials until `end`, or until the first that is wrong.

    The rows are written after each round of all faults, so that a part of it counts, too.
    """
    for number in count():
        for fault in faults:
            verdict = campaign.run(drawn(seed * 100_003 + number, fault))
            yield verdict
            if time.monotonic() > end or (first and not verdict.right):
                return
        if file:
            file.write_text(campaign.json())


if __name__ == "__main__":
    sys.exit(main())
