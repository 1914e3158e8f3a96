"""A whole characterisation: studies one after the other, each with live ranks of its approaches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from paceline.lab.lab import Lab
from paceline_bench.characterize.approaches import APPROACHES, Places, reference
from paceline_bench.characterize.measure import Effort, Field
from paceline_bench.characterize.results import Results
from paceline_bench.characterize.row import Configuration
from paceline_bench.interleave import Complain
from paceline_bench.run import BenchRequest, started
from paceline_bench.systems import System

HERE = "this machine"
"""The network of ranks that are on no lab's machines."""

Progress = Callable[[str, int, int], None]
"""Takes what is being done, how many turns are done, and how many there are."""


@dataclass(frozen=True)
class Study:
    """Configurations with one number of ranks in one place, see `command`.

    at_once: how many approaches have ranks at the same time, beside those that exchange nothing; None: all. timeout:
    seconds of a start or a turn.
    """

    lab: Lab | None
    ranks: int
    models: Sequence[str]
    batches: Sequence[int]
    image_size: int
    effort: Effort
    at_once: int | None
    timeout: float

    def configurations(self) -> list[Configuration]:
        """Return what is to be measured."""
        network = self.lab.topology.name if self.lab else HERE
        return [
            Configuration(network, self.ranks, model, self.image_size, batch)
            for model in self.models
            for batch in self.batches
        ]


@dataclass(frozen=True)
class Part:
    """The part of a study that the same ranks measure: some of its approaches, by name in each configuration."""

    study: Study
    systems: Sequence[System]
    missing: Sequence[tuple[Configuration, Sequence[str]]]


def parts(
    studies: Sequence[tuple[Study, Sequence[System]]], done: Collection[tuple[Configuration, str]]
) -> Iterator[Part]:
    """Return what is left to be measured. done: the configurations and approaches whose rows are there."""
    for study, chosen in studies:
        asked = study.configurations()
        left = [one for one in chosen if any((each, one.name) not in done for each in asked)]
        step = study.at_once or max(1, len(left))
        for first in range(0, len(left), step):
            systems = left[first : first + step]
            names = [(each, [one.name for one in systems if (each, one.name) not in done]) for each in asked]
            yield Part(study, systems, [(each, some) for each, some in names if some])


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
    todo, failed, turn = list(parts(studies, results.done())), False, 0
    turns = sum(part.study.effort.rounds * len(part.missing) for part in todo)
    for part in todo:
        study = part.study
        frameworks = dict.fromkeys(APPROACHES[one.name].framework for one in part.systems)
        referred = [APPROACHES[reference(one)].system(places, study.ranks) for one in frameworks]
        request = BenchRequest([*referred, *part.systems], study.ranks, lab=study.lab, timeout=study.timeout)
        progress(f"starting {study.ranks} ranks of {len(request.systems)} approaches", turn, turns)
        with started(request, environ, complain) as sessions:
            field = Field(sessions, study.effort, study.lab.topology if study.lab else None, complain)
            failed |= len(sessions) < len(request.systems)
            for asked, names in part.missing:
                told = f"{asked.model}, batch {asked.batch}, {asked.ranks} ranks: "

                def tell(what: str, number: int, told: str = told, base: int = turn) -> None:
                    progress(told + what, base + number, turns)

                results.add(field.measure(asked, names, tell))
                turn += study.effort.rounds
            failed |= field.failed
    return failed
