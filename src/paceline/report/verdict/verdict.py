"""A job's limit, in sentences. Every number in them was measured, or comes from the cost model or the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.formats.numbers import number, size
from paceline.formats.sizes import show_seconds
from paceline.observe.stragglers import Last, sentence
from paceline.report.verdict.links import LinkUse
from paceline.report.verdict.slow import INPUT, Slow
from paceline.topology.units import show_speed

COMPUTATION, DATA, LAST_RANK, NEGOTIATION, TRANSFER = "computation", "data", "last_rank", "negotiation", "transfer"
EXPOSED = "exposed"
"""The wait for communication where nobody knows how much of it was for other ranks, and how much for bytes."""
SIMULATOR, COST_MODEL, MEASURED = "simulator", "cost model", "measured times"
_WORTH = 0.02
"""The least part of the throughput that a change must add to be named, and of a step that a wait must take."""
_ELSEWHERE = 3.0
"""The ratio of the time of exchanges to that of the memory above which memory is not what makes them slow."""
_CLEAR = 0.05
"""The share of the step above which a wait that is not the largest part is named, too."""
_UNTOLD = 0.1
"""The share of the collectives from which it is said that nobody knows who was the last."""
_NOTICEABLE = 0.1
"""The share of the step from which a wait for the network is worth a line that nobody has asked for."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A change, how many times the throughput it would give, and what says so: SIMULATOR, COST_MODEL or MEASURED.

    It would give no more than that if measured times say so. against: the part of the step that it makes shorter.
    price: what it costs beside work, "" for nothing.
    """

    change: str
    factor: float
    by: str
    against: str
    price: str = ""

    @property
    def sentence(self) -> str:
        """The change and its factor."""
        return f"{self.change} would give {self.times}"

    @property
    def times(self) -> str:
        """The factor in words: "1.5×", or "up to 1.5×" where it is a bound."""
        return f"{'up to ' if self.by == MEASURED else ''}{number(self.factor)}×"


@dataclass(frozen=True, slots=True)
class Latest:
    """The rank that most of the waiting for the last rank was for.

    share: the share of the collectives in which it was the last. seconds: by which it was later than the rank before it
    in these, in the mean; both as the report has them. held_up: seconds of a step, in the mean, by which the others
    would have had everything ready earlier than it had.
    """

    rank: int
    host: str
    share: float
    seconds: float
    held_up: float

    @property
    def sentence(self) -> str:
        """See `paceline.observe.stragglers.sentence`."""
        return sentence(self.rank, self.host, self.share, self.seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The evidence for a verdict. parts: seconds of a step, which add up to it; see `Parts`, and EXPOSED.

    steps: the steps that were looked at. nbytes: bytes that a rank submits in a step. ideal: seconds that a step's
    exchanges take by the cost model. actual: seconds that they took. links: those between machines, the busiest first.
    no_gains: why there are no simulated changes, "" if there are. slow: the ranks that take longer than the others.
    untold: what says of how many collectives nobody knows who was the last.
    window: the share of the step that passes before its first tensor can be transferred.
    """

    ranks: int
    machines: int
    steps: float
    parts: Mapping[str, float]
    nbytes: float
    ideal: float | None = None
    actual: float | None = None
    links: tuple[LinkUse, ...] = ()
    latest: Latest | None = None
    slow: Slow | None = None
    gains: tuple[Gain, ...] = ()
    no_gains: str = ""
    window: float | None = None
    untold: Last | None = None

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.parts.values())

    def share(self, part: str) -> float:
        """The share of the step that a part takes, 0 to 1."""
        return self.parts.get(part, 0.0) / self.step if self.step else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The bottleneck of a job, and what would help.

    bound: the part of the step that limits it. headline: that in a sentence, with what would help most. details:
    further sentences. gains: what would help, the most first; only what is worth it.
    """

    bound: str
    headline: str
    details: tuple[str, ...] = ()
    gains: tuple[Gain, ...] = ()
    evidence: Evidence | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join((self.headline, *self.details))

    @property
    def waits_for_network(self) -> bool:
        """True if the job waits for bytes between machines in a good part of its step, as far as anybody knows.

        Of a wait that may be for other ranks, no more counts than the cost model says that the exchanges take.
        """
        known = self.evidence
        if known is None or known.machines < 2 or known.ideal is None:
            return False
        exposed = min(known.parts.get(EXPOSED, 0.0), known.ideal)
        return known.parts.get(TRANSFER, 0.0) + exposed >= _NOTICEABLE * known.step > 0


_NAMES = {
    COMPUTATION: "computation-bound",
    DATA: "input-bound",
    LAST_RANK: "straggler-bound",
    NEGOTIATION: "coordination-bound",
    EXPOSED: "communication-bound",
}


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict: the largest part of the step limits it.

    Where that is so because some ranks take longer than the others, those limit it: it is what they keep the others
    waiting for that can be mended.
    """
    if not evidence.step:
        return Verdict("", "no verdict: no step was seen")
    bound = max(evidence.parts, key=lambda part: evidence.parts[part])
    gains = tuple(sorted((gain for gain in evidence.gains if gain.factor >= 1 + _WORTH), key=lambda gain: -gain.factor))
    waits = sorted((part for part in evidence.parts if part != COMPUTATION), key=lambda part: -evidence.parts[part])
    slow = _straggles(evidence, bound, waits)
    if slow is not None:
        bound = LAST_RANK
    name = _NAMES.get(bound) or _transfer_name(evidence)
    headline = f"{name}: {slow.sentence if slow else _phrase(bound, evidence)}"
    for wait in waits[:1] if bound == COMPUTATION else waits[1:2]:
        if evidence.share(wait) >= _CLEAR:
            headline += f", {_phrase(wait, evidence, short=True)}"
    target = bound if bound != COMPUTATION or not waits else waits[0]
    useful = [gain for gain in gains if gain.against == target]
    best = next((gain for gain in useful if not gain.price), useful[0] if useful else None)
    if evidence.share(target) < _CLEAR:
        best = None
    if best is not None:
        headline += f"; {best.sentence}"
    elif bound == COMPUTATION and evidence.parts[COMPUTATION] > 0:
        most = evidence.step / evidence.parts[COMPUTATION]
        headline += f"; without any wait it would be {number(most)}× as fast"
    return Verdict(bound, headline + ".", tuple(_details(evidence, slow is not None)), gains, evidence)


def _straggles(evidence: Evidence, bound: str, waits: Sequence[str]) -> Slow | None:
    """The ranks that are slower than the others, if it is for them that a rank waits longest."""
    slow = evidence.slow
    if slow is None or evidence.share(LAST_RANK) < _CLEAR:
        return None
    its_own = DATA if slow.by == INPUT else COMPUTATION  # of its input these ranks wait for more than the mean
    others = [part for part in waits if part != its_own]
    return slow if bound in (COMPUTATION, LAST_RANK, its_own) and others[:1] == [LAST_RANK] else None


def _phrase(part: str, evidence: Evidence, short: bool = False) -> str:
    share = f"{100 * evidence.share(part):.0f} %" + ("" if short else " of the step")
    if part == COMPUTATION:
        return f"{share} {'is' if short else 'goes into'} computation"
    if part == DATA:
        return f"{share} waits for batches"
    if part == NEGOTIATION:
        return f"{share} waits until the ranks have agreed on an order"
    if part == LAST_RANK:
        late = evidence.latest
        who = f", mostly rank {late.rank} on {late.host}" if late is not None else ""
        return f"{share} waits for the last rank{who}"
    link = evidence.links[0] if evidence.links else None
    what = "the memory of the machine"
    if link is not None:
        what = f"the link of {link.name}"
    elif (times := _beyond_memory(evidence)) is not None:
        what = f"exchanges that take {times:.0f} times as long as the memory needs"
    return f"{share} waits for {'other ranks or ' if part == EXPOSED else ''}{what}"


def _transfer_name(evidence: Evidence) -> str:
    if evidence.machines > 1:
        return "network-bound"
    return "memory-bound" if _beyond_memory(evidence) is None else _NAMES[EXPOSED]


def _beyond_memory(evidence: Evidence) -> float | None:
    """Return the ratio of the exchanges' time to what the only machine's memory needs, if something else is slow.

    That may be the ranks themselves, as where they outnumber the cores.
    """
    if evidence.machines > 1 or not evidence.ideal or evidence.actual is None:
        return None
    times = evidence.actual / evidence.ideal
    return times if times > _ELSEWHERE else None


def _details(evidence: Evidence, straggles: bool) -> list[str]:
    found = [f"A step takes {show_seconds(evidence.step)} and a rank submits {size(evidence.nbytes)} in it."]
    if evidence.actual is not None and evidence.ideal is not None:
        found.append(
            f"Its exchanges take {show_seconds(evidence.actual)}, by the model of the "
            f"{'network' if evidence.machines > 1 else 'memory'} {show_seconds(evidence.ideal)}."
        )
    elif evidence.ideal is not None:
        found.append(f"Its exchanges would take {show_seconds(evidence.ideal)} by the model of the network.")
    if evidence.links:
        found.append(_link(evidence.links[0], evidence.actual))
    late = evidence.latest
    if straggles:
        found.append(f"{_phrase(LAST_RANK, evidence)}.")
    if late is not None and evidence.share(LAST_RANK) >= _WORTH:
        found.append(late.sentence)
    if evidence.untold is not None and evidence.untold.untold >= _UNTOLD:
        found.append(f"Who arrived last is not known of all ({evidence.untold.told}).")
    if evidence.no_gains:
        found.append(evidence.no_gains)
    return found


def _link(link: LinkUse, actual: float | None) -> str:
    text = f"The job takes the link of {link.name} for {show_speed(min(link.up, link.down))}"
    if actual:
        text += f", and {show_speed(link.nbytes / actual)} passed it each way while exchanges were under way"
    return f"{text}."
