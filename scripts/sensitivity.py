"""Print what it costs to be wrong by two in each constant of the planner.

For each constant of `paceline.calibration.plan` and each of the factors 1/2 and 2, plans of all-reduces are chosen with
the wrong value and costed with the right one, for every topology and size. A row says how many times as long as with
the right choice the worst and the mean of them take, and which the worst is. Constants that change no choice are left
out, and so is what the cost model does not know, such as how many bytes a queue holds.

    python scripts/sensitivity.py docs/topologies/*.yaml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from paceline import topology
from paceline.calibration import plan as fitted
from paceline.formats.sizes import show_bytes
from paceline.plan.between import SIZES
from paceline.plan.choice import Choice, serving
from paceline.plan.choose import choose
from paceline.plan.cost import cost
from paceline.plan.outline import outline
from paceline.topology import Topology


def main(paths: list[Path]) -> None:
    networks = {path.stem: topology.read(path) for path in paths}
    right = {name: list(_seconds(network, choose("all_reduce", network))) for name, network in networks.items()}
    print(f"{'constant':30} {'factor':>6} {'worst':>7} {'mean':>7}  worst at")
    for constant in [name for name in vars(fitted) if name.isupper()]:
        for factor in (0.5, 2.0):
            losses = []
            for name, network in networks.items():
                chosen = _with(constant, factor, network)
                times = zip(SIZES, _seconds(network, chosen), right[name], strict=True)
                losses += [(wrong / best, name, nbytes) for nbytes, wrong, best in times]
            worst, name, nbytes = max(losses)
            mean = fmean(loss for loss, _, _ in losses)
            if worst > 1:
                print(f"{constant:30} {factor:6g} {worst:7.3f} {mean:7.3f}  {show_bytes(nbytes)} on {name}", flush=True)


def _with(constant: str, factor: float, network: Topology) -> tuple[Choice, ...]:
    """The choices that are made while `constant` is `factor` times what it is."""
    value = getattr(fitted, constant)
    setattr(fitted, constant, type(value)(value * factor))
    try:
        return choose("all_reduce", network)
    finally:
        setattr(fitted, constant, value)


def _seconds(network: Topology, choices: tuple[Choice, ...]) -> Iterator[float]:
    """The seconds that the chosen plan takes at every size."""
    for nbytes in SIZES:
        choice = serving(choices, nbytes)
        lines = outline(choice.plan, one_shot=choice.one_shot)
        yield cost(lines, network, nbytes, choice.chunk or nbytes).line.seconds(nbytes)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
