"""One rank goes in the middle of collectives of all kinds.

`PYTHONPATH=tests python tests/fault_trial.py 1000` runs as many trials of killed ranks and says how they ended.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from jobs import PROGRAMS
from rank_loss import lose_one

ARRANGEMENTS = ["00", "000", "01", "0011"]
VICTIM = PROGRAMS / "victim.py"


def trial(how: str, machines: str, seed: int, folder: Path, timeout: float = 30.0, chunk: int = 0) -> float:
    """Run one; returns the seconds from the victim's end to the last survivor's. Fails unless all were told right."""
    arguments = (machines, str(seed), str(timeout), str(chunk))
    return lose_one(len(machines), VICTIM, how, *arguments, folder=folder, timeout=timeout)[0]


def main(trials: int) -> None:
    slowest, ends = 0.0, Counter[str]()
    for seed in range(trials):
        with tempfile.TemporaryDirectory() as name:
            try:
                slowest = max(slowest, trial("kill", ARRANGEMENTS[seed % 4], seed, Path(name)))
                ends["named"] += 1
            except AssertionError as error:
                ends["failed"] += 1
                print(f"trial {seed}: {error}", flush=True)
    print(f"{trials} trials: {dict(ends)}, slowest {slowest:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]))
