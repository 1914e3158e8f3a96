"""The report of a run, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.formats.json_input import load_json
from paceline.observe.figures import Figures
from paceline.observe.rates import Rates, rates
from paceline.observe.stragglers import Last, arrived_last
from paceline.topology import Topology, dump

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
class Report:
    """The report of a job. size: the number of ranks. missing: for each rank without figures, the reason.

    topology: its network as YAML, as the first rank knew it at the end; "" if it is not known.
    """

    size: int
    ranks: tuple[Rank, ...]
    missing: Mapping[int, str]
    topology: str = ""
    format: str = FORMAT


def make(figures: Sequence[Figures], missing: Mapping[int, str], topology: Topology | None = None) -> Report:
    """Make the report from the ranks' figures, ordered by rank. missing: for each rank without figures, the reason."""
    last = arrived_last(figures)
    ranks = (Rank(one, rates(one), last.get(one.rank)) for one in sorted(figures, key=lambda one: one.rank))
    network = dump(topology) if topology is not None else ""
    return Report(len(figures) + len(missing), tuple(ranks), dict(missing), network)


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
