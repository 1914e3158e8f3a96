"""Writes flight-recorder files for torch's tool `torchfrtrace -p PREFIX FOLDER`, which finds a missing rank.

The format is torch's: one pickle for each rank. Paceline only writes it and never reads it. fr_trace accepts only
torch's own back ends, so operations have the prefix "nccl:", and the group's description names Paceline.
"""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.formats.files import write_file
from paceline.observe.trace.dump import Dump, Group
from paceline.observe.trace.event import Event
from paceline.observe.trace.groups import groups_of

VERSION = "2.10"
"""The version of the format that torch 2.13 writes; fr_trace only requires that all ranks have the same."""

# The sizes of these collectives may differ between ranks. torch compares sizes, so they are written as 0.
_UNEVEN = ("gather", "scatter", "all_to_all")


def write(dumps: Sequence[Dump], prefix: str) -> list[Path]:
    """Write PREFIX0, PREFIX1, … (the rank is appended) and return the paths. Raises OSError if one cannot be written.

    The ranks' rings begin at different operations, so each group begins at the first operation that all dumps hold.
    Sends and receives are left out, because fr_trace can only match those that were batched.
    """
    groups = groups_of(dumps)
    begins = first_common(dumps)
    paths = []
    for dump in dumps:
        kept = [e for e in dump.events if not e.point_to_point and e.sequence >= begins[e.channel]]
        content = {
            "version": VERSION,
            "pg_config": pg_config(groups, dump.rank),
            "pg_status": {str(channel): _status(kept, channel) for channel in groups},
            "entries": [entry(number, event, groups[event.channel]) for number, event in enumerate(kept)],
        }
        path = Path(f"{prefix}{dump.rank}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, pickle.dumps(content, protocol=4))
        paths.append(path)
    return paths


def first_common(dumps: Sequence[Dump]) -> dict[int, int]:
    """Return for each channel the first sequence number that no rank's ring has overwritten.

    A ring that was never full holds everything from sequence 0 or 1 on, so a rank without events removes nothing.
    """
    begins: dict[int, int] = {}
    for dump in dumps:
        firsts: dict[int, int] = {}
        for event in dump.events:
            if not event.point_to_point:
                firsts.setdefault(event.channel, event.sequence)
        for channel, first in firsts.items():
            begins[channel] = max(first, begins.get(channel, first))
    return begins


def pg_config(groups: Mapping[int, Group], rank: int) -> dict[str, dict[str, str]]:
    """Return the groups that `rank` belongs to, by channel, in torch's format."""
    return {
        str(channel): {"name": str(channel), "desc": _description(group), "ranks": str(list(group.ranks))}
        for channel, group in groups.items()
        if rank in group.ranks
    }


def entry(number: int, event: Event, group: Group) -> dict[str, Any]:
    """Return one operation in torch's format. Sizes are one-dimensional, in elements."""
    inputs, outputs = sizes(event, len(group.ranks))
    started = event.start_ns or None
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": (str(event.channel), _description(group)),
        "collective_seq_id": event.sequence,
        "p2p_seq_id": 0,
        "op_id": event.id,
        "profiling_name": f"nccl:{event.collective}",
        "time_created_ns": event.enqueue_ns,
        "duration_ms": (event.end_ns - started) / 1e6 if started and event.end_ns else 0.0,
        "input_sizes": [[inputs]],
        "output_sizes": [[outputs]],
        "input_dtypes": [event.dtype],
        "output_dtypes": [event.dtype],
        "state": "completed" if event.state == "done" else "started" if started else "scheduled",
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": event.end_ns or None,
        "retired": event.state == "done",
        "timeout_ms": 0,
        "is_p2p": False,
        "frames": [],
    }


def sizes(event: Event, members: int) -> tuple[int, int]:
    """Return the elements that the rank passes in and gets back; (0, 0) where they may differ between ranks."""
    if event.collective in _UNEVEN or event.collective == "barrier":
        return 0, 0
    if event.collective == "all_gather":
        # A completed all_gather may have been uneven; in a failed one, different sizes may be the reason.
        return (0, 0) if event.state == "done" else (event.elements // members, event.elements)
    if event.collective == "reduce_scatter":
        return event.elements, event.elements // members
    return event.elements, event.elements


def _description(group: Group) -> str:
    return f"{group.name} (paceline)"


def _status(events: Sequence[Event], channel: int) -> dict[str, int]:
    own = [event for event in events if event.channel == channel]
    return {
        "last_enqueued_collective": max((e.sequence for e in own), default=-1),
        "last_started_collective": max((e.sequence for e in own if e.start_ns), default=-1),
        "last_completed_collective": max((e.sequence for e in own if e.state == "done"), default=-1),
    }
