"""The measurement: in every round each approach makes a few steps while all others are idle."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from paceline.plan.bound import bound
from paceline.topology import Topology
from paceline_bench.characterize.approaches import APPROACHES, NONE, Approach, reference
from paceline_bench.characterize.row import Configuration, Measured, Row, of_replies, summary
from paceline_bench.interleave import Complain, turns
from paceline_bench.session import Session, SessionFailed, Unsupported

Progress = Callable[[str, int], None]
"""Takes what is being done, and how many rounds are done."""


@dataclass(frozen=True)
class Effort:
    """rounds: the turns of every approach, at least 3. steps: timed steps in a turn, after one that isn't."""

    rounds: int
    steps: int


class Field:
    """The live ranks of all approaches. One that fails is reported, ended and left out from then on."""

    def __init__(
        self, sessions: Iterable[Session], effort: Effort, topology: Topology | None, complain: Complain
    ) -> None:
        self._sessions = {session.system.name: session for session in sessions}
        self._effort = effort
        self._topology = topology
        self._complain = complain
        self.failed = False

    def measure(self, configuration: Configuration, approaches: Iterable[str], progress: Progress) -> list[Row]:
        """Check and time the approaches, and those that they refer to, in one configuration.

        Returns the rows of all that did not fail.
        """
        wanted = [APPROACHES[name] for name in approaches if name in self._sessions]
        frameworks = dict.fromkeys(one.framework for one in wanted)
        chosen = [*(APPROACHES[reference(framework)] for framework in frameworks), *wanted]
        found = {one.name: Measured() for one in chosen}
        # The ranks of a lab see the files of this machine.
        folder = Path(tempfile.mkdtemp(prefix="paceline-characterize-"))
        try:
            progress("checking", 0)
            kept = [one for one in chosen if self._tried(one, self._prepare, configuration, found[one.name], folder)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for number in range(self._effort.rounds):
            progress(f"round {number + 1}", number)
            for one in turns(kept, number):
                if not self._tried(one, self._train, found[one.name]):
                    kept = [other for other in kept if other is not one]
        alive = {one.name for one in kept}
        return [self._row(one, configuration, found) for one in kept if reference(one.framework) in alive]

    def _prepare(self, approach: Approach, asked: Configuration, into: Measured, folder: Path) -> None:
        session = self._sessions[approach.name]
        replies = session.ask(do="build", model=asked.model, batch=asked.batch, pixels=asked.image_size)
        into.gradient_bytes = int(replies[0]["bytes"])
        own = folder / approach.framework
        if approach.kind == NONE:
            own.mkdir()
            session.ask(do="refer", folder=str(own))
        elif reference(approach.framework) not in self._sessions:
            raise Unsupported(f"{approach.name}: {reference(approach.framework)}, its reference, failed")
        else:
            into.wrong = sum(int(reply["wrong"]) for reply in session.ask(do="check", folder=str(own)))

    def _train(self, approach: Approach, into: Measured) -> None:
        steps = self._effort.steps
        into.rounds.append(of_replies(self._sessions[approach.name].ask(do="train", steps=steps), steps))

    def _tried(self, approach: Approach, step: Callable[..., None], *arguments: object) -> bool:
        """Do something with the ranks of an approach; return whether they are there and did it."""
        if approach.name not in self._sessions:
            return False
        try:
            step(approach, *arguments)
        except (SessionFailed, Unsupported) as reason:
            self._complain(str(reason))
            self.failed = True
            self._sessions.pop(approach.name).stop(gently=False)
            return False
        return True

    def _row(self, approach: Approach, asked: Configuration, found: dict[str, Measured]) -> Row:
        mine, alone = found[approach.name], found[reference(approach.framework)]
        topology = self._topology
        least = bound(topology, mine.gradient_bytes).seconds if topology else None
        return Row(
            approach=approach.name,
            kind=approach.kind,
            framework=approach.framework,
            network=asked.network,
            machines=sum(1 for _ in topology.machines()) if topology else 1,
            model=asked.model,
            image_size=asked.image_size,
            batch=asked.batch,
            ranks=asked.ranks,
            **summary(mine.rounds, alone.rounds, asked.batch * asked.ranks),
            gradient_bytes=mine.gradient_bytes,
            bound_ms=None if least is None else round(least * 1e3, 3),
            wrong=mine.wrong,
            steps=len(mine.rounds) * self._effort.steps,
            load=round(os.getloadavg()[0], 1),
        )
