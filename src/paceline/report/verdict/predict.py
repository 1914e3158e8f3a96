"""The gains that the simulator predicts for changes to a recorded job, if it can be believed about the run itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from paceline.calibration import report as fitted
from paceline.formats.sizes import show_seconds
from paceline.report.verdict.links import communication
from paceline.report.verdict.verdict import COST_MODEL, NEGOTIATION, SIMULATOR, TRANSFER, Gain
from paceline.settings.names import NONE
from paceline.simulate.calibrate import Measured
from paceline.simulate.scenario import Scenario, changes
from paceline.topology import Topology

_STEPS, _RUNS = 10, 3
_SMALL = 16
"""Ranks up to which another network is tried: following the messages of 64 ranks takes many seconds."""
_CODEC = "bf16"
"""The codec that is offered where only the cost model can be asked: the one that needs no care."""
_AGAINST = {
    "codec": TRANSFER,
    "links": TRANSFER,
    "the algorithm": TRANSFER,
    "fusion": NEGOTIATION,
    "policy": NEGOTIATION,
}
_PRICES = {"codec bf16": "", "codec": "precision", "links": "another network", "": ""}


def gains(run: Measured, codec: str) -> tuple[list[Gain], str]:
    """Return what changes would give, and why there is nothing, "" if there is.

    codec: what encodes data between machines now.
    """
    scenario = Scenario(
        workload=run.workload, topology=run.topology
    )  # what a codec saves is in how long exchanges took
    now = scenario.answer(_STEPS, _RUNS).step.seconds
    took = fmean(run.steps)
    if abs(now - took) > fitted.BELIEVED_ERROR * took:
        return [], (
            f"The simulator says {show_seconds(now)} of this run's own step, too far off to say what would help."
        )
    return list(_changes(scenario, now, codec)), ""


def _changes(scenario: Scenario, now: float, codec: str) -> Iterator[Gain]:
    """Try what a user could change against a wait: the network itself only where following its messages is quick."""
    for change, changed in changes(scenario):
        against = next((part for word, part in _AGAINST.items() if change.startswith(word)), "")
        other = changed.topology != scenario.topology and scenario.topology.world > _SMALL
        if not against or other or (codec != NONE and change.startswith("codec")):
            continue
        price = next(price for word, price in _PRICES.items() if change.startswith(word))
        yield Gain(change, now / changed.answer(_STEPS, _RUNS).step.seconds, SIMULATOR, against, price)


def coded(topology: Topology, sizes: Mapping[int, float], step: float, waited: float, against: str) -> Gain:
    """Return what a codec between machines would give by the cost model alone, if the wait shrinks as the exchanges do.

    sizes: as `communication` takes them. step, waited: seconds of a step, and of the wait for bytes in it.
    """
    plain, small = (communication(topology, sizes, codec).seconds for codec in (NONE, _CODEC))
    saved = waited * max(0.0, 1 - small / plain) if plain else 0.0
    return Gain(f"codec {_CODEC} between machines", step / (step - saved), COST_MODEL, against)
