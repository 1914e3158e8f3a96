"""Print how far predictions from a recorded report are off: of the run itself, and of runs that were held out.

Every kind of training runs in every network's lab and keeps its report. `itself` is what the report says of its own
run; `held out` is what the same kind's report from the first network says of it. Computing is sleeping, with delays
that ranks share and others of their own, so that what else the CPUs do counts as little as it can. Needs root and a
quiet machine.

    python studies/held_out.py                            # about ten minutes
    python studies/held_out.py --kinds one-bucket --networks docs/topologies/2+2.yaml docs/topologies/two-racks.yaml
    python studies/held_out.py --keep build/held_out      # reports stay there, and what is there is not run again
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from paceline.lab.lab import Lab
from paceline.observe.report import read as read_report
from paceline.simulate.answer import Answer
from paceline.simulate.calibrate import Measured, calibrate
from paceline.simulate.scenario import Scenario
from paceline.topology import Topology, read

HERE = Path(__file__).resolve().parent
TOPOLOGIES = HERE.parent / "docs" / "topologies"
KINDS = ("buckets", "one-bucket", "accumulation", "horovod")
NETWORKS = ("2+2.yaml", "2+2-200-mbit.yaml", "1+1+1-one-slow.yaml", "two-racks.yaml")
STEPS, RUNS, SIMULATED = 60, 10, 40
GOAL, WORST = 0.03, 0.08
"""The errors that a prediction may have in the median, and at worst."""


@dataclass(frozen=True)
class Found:
    """A prediction beside the run. error: of the median step, as a fraction of what was measured."""

    kind: str
    network: str
    what: str
    told: Answer
    took: float

    @property
    def error(self) -> float:
        """See the class."""
        return self.told.median / self.took - 1

    @property
    def inside(self) -> bool:
        """Whether the measured median lies in the interval of 90 %."""
        return self.told.low <= self.took <= self.told.high


def recorded(kind: str, network: Path, keep: Path, steps: int) -> Measured:
    """Run a training in a lab, unless its report is there, and return what the report says."""
    place = keep / f"{kind}-{network.stem}.json"
    if not place.exists():
        lab = [sys.executable, "-m", "paceline", "lab", str(network), "--"]
        job = [sys.executable, "-m", "paceline", "run", str(HERE / "held_out_rank.py"), kind, str(steps)]
        setting = ["env", f"PACELINE_REPORT={place}"]
        subprocess.run([*lab, *setting, *job], check=True, stdout=subprocess.DEVNULL, timeout=600)
    return calibrate(read_report(place), str(place))


def told(workload: Measured, topology: Topology) -> Answer:
    """Return the prediction."""
    return Scenario(workload=workload.workload, topology=topology).answer(SIMULATED, RUNS)


def compare(kinds: Sequence[str], networks: Sequence[Path], keep: Path, steps: int) -> Iterator[Found]:
    """Yield the predictions."""
    for kind in kinds:
        base: Measured | None = None
        for network in networks:
            run = recorded(kind, network, keep, steps)
            took = median(run.steps)
            yield Found(kind, network.stem, "itself", told(run, run.topology), took)
            if base is not None:
                yield Found(kind, network.stem, "held out", told(base, Lab(read(network)).topology), took)
            base = base or run


def main() -> None:
    """Print a line for each prediction, and the errors' median and worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--networks", nargs="+", type=Path, default=[TOPOLOGIES / name for name in NETWORKS])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-held-out-") as folder:
        keep = (asked.keep or Path(folder)).resolve()
        keep.mkdir(parents=True, exist_ok=True)
        errors: dict[str, list[float]] = {}
        print(f"{'kind':<14}{'network':<18}{'':<10}{'predicted':>10}{'90 %':>18}{'measured':>10}{'error':>8}")
        for one in compare(asked.kinds, asked.networks, keep, asked.steps):
            errors.setdefault(one.what, []).append(abs(one.error))
            interval = f"{one.told.low * 1e3:.0f} to {one.told.high * 1e3:.0f}"
            figures = f"{one.told.median * 1e3:>10.1f}{interval:>18}{one.took * 1e3:>10.1f}{one.error:>+8.1%}"
            print(
                f"{one.kind:<14}{one.network:<18}{one.what:<10}{figures}{'' if one.inside else ' outside'}", flush=True
            )
    for what, found in errors.items():
        print(f"{what}: median {median(found):.1%} (at most {GOAL:.0%}), worst {max(found):.1%} (at most {WORST:.0%})")


if __name__ == "__main__":
    main()
