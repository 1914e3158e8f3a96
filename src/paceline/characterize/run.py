"""A whole characterisation: studies one after the other, each with live ranks of every approach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paceline.bench.interleave import Complain
from paceline.bench.run import BenchRequest, started
from paceline.bench.systems import System
from paceline.characterize.approaches import APPROACHES, Places, reference
from paceline.characterize.measure import Effort, Field
from paceline.characterize.results import Results
from paceline.characterize.row import Configuration
from paceline.lab.lab import Lab

HERE = "this machine"
"""The network of ranks that are on no lab's machines."""

Progress = Callable[[str, int, int], None]
"""Takes what is being done, how many turns are done, and how many there are."""


@dataclass(frozen=True)
class Study:
    """Configurations with one number of ranks in one place, see `command`. timeout: seconds of a start or a turn."""

    lab: Lab | None
    ranks: int
    models: Sequence[str]
    batches: Sequence[int]
    image_size: int
    effort: Effort
    timeout: float

    def configurations(self) -> list[Configuration]:
        """Return what is to be measured."""
        network = self.lab.topology.name if self.lab else HERE
        return [
            Configuration(network, self.ranks, model, self.image_size, batch)
            for model in self.models
            for batch in self.batches
        ]


def run(
    studies: Sequence[tuple[Study, Sequence[System]]],
    places: Places,
    results: Results,
    environ: Mapping[str, str],
    complain: Complain,
    progress: Progress,
) -> bool:
    """Measure what is not in the results yet, and add it to them, configuration by configuration.

    studies: each with the systems of its approaches. Returns whether anything failed; `complain` was told. Raises
    `bench.systems.Missing` if the reference of a framework is missing, and what `Results.add` raises.
    """
    done, failed = results.done(), False
    missing = [
        [(asked, [one for one in chosen if (asked, one.name) not in done]) for asked in study.configurations()]
        for study, chosen in studies
    ]
    turns = sum(
        study.effort.rounds for (study, _), todo in zip(studies, missing, strict=True) for _, left in todo if left
    )
    turn = 0
    for (study, _), todo in zip(studies, missing, strict=True):
        needed = {system.name: system for _, left in todo for system in left}
        if not needed:
            continue
        frameworks = dict.fromkeys(APPROACHES[name].framework for name in needed)
        referred = [APPROACHES[reference(one)].system(places, study.ranks) for one in frameworks]
        request = BenchRequest([*referred, *needed.values()], study.ranks, lab=study.lab, timeout=study.timeout)
        progress(f"starting {study.ranks} ranks of {len(request.systems)} approaches", turn, turns)
        with started(request, environ, complain) as sessions:
            field = Field(sessions, study.effort, study.lab.topology if study.lab else None, complain)
            failed |= len(sessions) < len(request.systems)
            for asked, left in todo:
                if not left:
                    continue
                told = f"{asked.model}, batch {asked.batch}, {asked.ranks} ranks: "

                def tell(what: str, number: int, told: str = told, base: int = turn) -> None:
                    progress(told + what, base + number, turns)

                results.add(field.measure(asked, [one.name for one in left], tell))
                turn += study.effort.rounds
            failed |= field.failed
    return failed
