"""The tensors of a recorded step: how late each rank submits them, and how long they take from there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from statistics import fmean

from paceline.formats.sizes import show_bytes
from paceline.simulate.recorded import Call
from paceline.simulate.recording import Recording


@dataclass(frozen=True, slots=True)
class TensorTimes:
    """A tensor, or the call in its place, with seconds as means over steps.

    late: by rank, how long after the first rank it was submitted. exchanged: from the last submission until it was done
    on the mean rank.
    """

    name: str
    nbytes: int
    steps: int
    late: tuple[float, ...]
    exchanged: float

    @property
    def waited(self) -> float:
        """Seconds from the first submission until the mean step's last one."""
        return max(self.late)


def tensors(run: Recording) -> list[TensorTimes]:
    """Return the tensors of the steps, in the order in which the first rank submits them."""
    found: dict[tuple[Hashable, int], list[list[Call]]] = {}
    names: dict[tuple[Hashable, int], str] = {}
    for row in run.rows[1:]:
        place: dict[Hashable, int] = {}
        for key in row:
            calls = [one[key] for one in run.calls]
            kind = calls[0].kind
            place[kind] = place.get(kind, 0) + 1
            label = (kind, place[kind])
            found.setdefault(label, []).append(calls)
            names[label] = key[2] or f"{calls[0].collective} of {show_bytes(calls[0].nbytes)}, call {place[kind]}"
    return [_times(names[label], steps) for label, steps in found.items()]


def _times(name: str, steps: list[list[Call]]) -> TensorTimes:
    firsts = [min(call.begin for call in calls) for calls in steps]
    lasts = [max(call.begin for call in calls) for calls in steps]
    late = (
        fmean(calls[rank].begin - first for calls, first in zip(steps, firsts, strict=True))
        for rank in range(len(steps[0]))
    )
    exchanged = fmean(
        max(0.0, fmean(call.end for call in calls) - last) for calls, last in zip(steps, lasts, strict=True)
    )
    return TensorTimes(name, steps[0][0].nbytes, len(steps), tuple(late), exchanged)
