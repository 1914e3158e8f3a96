"""The report of a run, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.formats.json_input import load_json
from paceline.formats.sizes import show_duration
from paceline.observe.figures import Figures
from paceline.observe.networks import Network
from paceline.observe.rates import Rates, rates
from paceline.observe.stragglers import Last, arrived_last
from paceline.topology import dump

FORMAT = "paceline report 1"
MAX_BYTES = 256 * 2**20
"""The size in bytes of the largest report that is read."""


@dataclass(frozen=True)
class Rank:
    """One rank of the report: its figures, its rates, and how often it arrived last (None if unknown)."""

    figures: Figures
    rates: Rates
    last: Last | None = None


@dataclass(frozen=True)
class Earlier:
    """A network that plans were made for from `since_ns` on, as YAML; see `Report`."""

    since_ns: int
    topology: str


@dataclass(frozen=True)
class Report:
    """The report of a job. size: the number of ranks. missing: for each rank without figures, the reason.

    topology: its network as YAML, as the first rank knew it at the end; "" if it is not known. earlier: those before it
    for which plans were made, the oldest first. since_ns: when the plans were made for `topology` (CLOCK_REALTIME of
    the first rank's machine in ns); 0 if there were none before it. cut: for each rank whose figures end before it did,
    the reason. end: a sentence that says how the job ended if its ranks did not end by themselves.
    """

    size: int
    ranks: tuple[Rank, ...]
    missing: Mapping[int, str]
    topology: str = ""
    earlier: tuple[Earlier, ...] = ()
    since_ns: int = 0
    cut: Mapping[int, str] = field(default_factory=dict)
    end: str = ""
    format: str = FORMAT

    @property
    def title(self) -> str:
        """Ranks, machines and seconds of the job: "4 ranks on 2 machines, 17.8 s"."""
        machines = len({rank.figures.host for rank in self.ranks})
        several = machines > 1 or any(rank.figures.elsewhere for rank in self.ranks)
        where = f"{machines if machines > 1 else 'several'} machines" if several else "1 machine"
        seconds = max((rank.figures.seconds for rank in self.ranks), default=0.0)
        return f"{self.size} rank{'s' if self.size != 1 else ''} on {where}, {show_duration(seconds)}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that say how the job ended, of which ranks something is missing, and what the network was."""
        found = [self.end] if self.end else []
        found += [f"Rank {rank} gave no figures: {why}." for rank, why in sorted(self.missing.items())]
        found += [f"The figures of rank {rank} end before it did: {why}." for rank, why in sorted(self.cut.items())]
        if self.earlier and self.ranks:
            ago = show_duration((self.ranks[0].figures.time_ns - self.since_ns) / 1e9)
            times = "once" if len(self.earlier) == 1 else f"{len(self.earlier)} times, the last time"
            found.append(
                f"Plans were made again {times} {ago} before the end, as links had changed. What is said of a step is "
                "that of the newest network with enough steps."
            )
        return tuple(found)


def make(
    figures: Sequence[Figures],
    missing: Mapping[int, str],
    networks: Sequence[Network] = (),
    *,
    cut: Mapping[int, str] | None = None,
    end: str = "",
) -> Report:
    """Make the report from the ranks' figures, ordered by rank. networks: those of the job, the last one last.

    missing, cut, end: see `Report`.
    """
    last = arrived_last(figures)
    ranks = (Rank(one, rates(one), last.get(one.rank)) for one in sorted(figures, key=lambda one: one.rank))
    *before, last_known = networks or (None,)
    return Report(
        size=len(figures) + len(missing),
        ranks=tuple(ranks),
        missing=dict(missing),
        topology=dump(last_known.topology) if last_known is not None else "",
        earlier=tuple(Earlier(one.since_ns, dump(one.topology)) for one in before if one is not None),
        since_ns=last_known.since_ns if last_known is not None and before else 0,
        cut=dict(cut or {}),
        end=end,
    )


def to_json(report: Report) -> str:
    """Return the report as JSON, with a line for each rank.

    The ranks' raw arrival times are left out; `last` summarises them.
    """
    content: dict[str, Any] = asdict(report)
    for rank in content["ranks"]:
        del rank["figures"]["arrivals"]
    ranks = ",\n".join(json.dumps(rank) for rank in content.pop("ranks"))
    rest = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    return f'{{{rest},\n"ranks": [\n{ranks}\n]}}'


def read(path: Path) -> Report:
    """Read a report. Raises ValueError with one sentence for any other file, and OSError if it cannot be read."""
    from pydantic import TypeAdapter, ValidationError

    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} is larger than a report can be")
    try:
        found = TypeAdapter(Report).validate_python(load_json(content))
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise ValueError(f"{path} is not a Paceline report: {where}{first['msg']}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a Paceline report: {error}") from None
    if found.format != FORMAT:
        raise ValueError(f"{path} has the format {found.format!r:.60}, not {FORMAT!r}")
    return found
