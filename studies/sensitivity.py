"""Print what it costs to be wrong by two in each constant of the planner.

For each constant of `paceline.calibration.plan` and each of the factors 1/2 and 2, plans of all collectives are chosen
with the wrong value and costed with the right one, for every topology and size, and so is whether all-reduces are
encoded. A row says how many times as long as with the right choice the worst and the mean of them take, and which the
worst is. Constants that change no choice are left out, and so is what the cost model does not know, such as how many
bytes a queue holds.

    python studies/sensitivity.py docs/topologies/*.yaml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from paceline import topology
from paceline.calibration import plan as fitted
from paceline.formats.sizes import show_bytes
from paceline.plan.auto import CODEC, Encoding, encoding
from paceline.plan.between import SIZES
from paceline.plan.choice import Choice, serving
from paceline.plan.choose import COLLECTIVES, choose
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.plan.outline import outline
from paceline.plan.turned import turned
from paceline.topology import Topology


class Chosen(NamedTuple):
    """What is chosen for a network: for each collective, and how all-reduces are encoded."""

    choices: dict[str, tuple[Choice, ...]]
    encoding: Encoding


def main(paths: list[Path]) -> None:
    networks = {path.stem: topology.read(path) for path in paths}
    right = {name: list(_seconds(network, _chosen(network))) for name, network in networks.items()}
    print(f"{'constant':30} {'factor':>6} {'worst':>7} {'mean':>7}  worst at")
    for constant in [name for name in vars(fitted) if name.isupper()]:
        for factor in (0.5, 2.0):
            losses = []
            for name, network in networks.items():
                times = zip(_seconds(network, _with(constant, factor, network)), right[name], strict=True)
                losses += [(wrong / best, name, what) for (what, wrong), (_, best) in times]
            worst, name, what = max(losses)
            mean = fmean(loss for loss, _, _ in losses)
            if worst > 1:
                print(f"{constant:30} {factor:6g} {worst:7.3f} {mean:7.3f}  {what} on {name}", flush=True)


def _chosen(network: Topology, coding: float = 1.0) -> Chosen:
    """coding: a factor of the time that encoding and decoding are believed to take."""
    codec = replace(CODEC, seconds=coding * CODEC.seconds)
    return Chosen(
        {collective: choose(collective, network) for collective in COLLECTIVES}, encoding(network, codec=codec)
    )


def _with(constant: str, factor: float, network: Topology) -> Chosen:
    """What is chosen while `constant` is `factor` times what it is."""
    value = getattr(fitted, constant)
    if isinstance(value, dict):  # the rates of codecs, of which encoding and decoding have about half of the time each
        return _chosen(network, (1 + 1 / factor) / 2)
    setattr(fitted, constant, type(value)(value * factor))
    try:
        return _chosen(network)
    finally:
        setattr(fitted, constant, value)


def _seconds(network: Topology, chosen: Chosen) -> Iterator[tuple[str, float]]:
    """The seconds that the chosen plan of every collective takes at every size."""
    for collective, choices in chosen.choices.items():
        for nbytes in SIZES if choices else ():
            choice = serving(choices, nbytes)
            what = f"{collective} of {show_bytes(nbytes)}"
            yield what, _cost(collective, network, choice, nbytes, False)
            if collective == "all_reduce":
                encoded = 0 < chosen.encoding.least <= nbytes
                yield f"{what} that may be encoded", _cost(collective, network, choice, nbytes, encoded)


@cache
def _cost(collective: str, network: Topology, choice: Choice, nbytes: int, encoded: bool) -> float:
    links, chunk = Network(network), choice.chunk or nbytes
    if collective == "all_reduce":
        plan = outline(choice.plan, one_shot=choice.one_shot)
        return cost(plan, links, nbytes, chunk, CODEC if encoded else None).line.seconds(nbytes)
    roots = range(1, network.world) if collective == "turned_broadcast" else ()
    plans = [turned(choice.plan, root) for root in roots] or [choice.plan]
    return fmean(cost(plan, links, nbytes, chunk).all_gather.seconds(nbytes) for plan in plans)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
