"""Whether what came of a trial is right."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

from stage import Record
from trials import FAULTS, Trial

NAMED_WITHIN = 10.0
"""Seconds, beyond the timeout where that is what tells."""
COMMUNICATION = "CommunicationError"
BLAMES_ITSELF = ("one way", "packets too long", "connections closed")
"""Faults of which a rank hears from a third one, before it notices anything itself, that it is said to be gone."""
GONE = {"kill": -9, "two killed": -9, "full disk, kill": -9, "terminate": -15, "segfault": -11, "_exit": 3}


@dataclass
class Verdict:
    """wrong: what is wrong, in sentences. named: seconds from the fault to each survivor's error."""

    wrong: list[str] = field(default_factory=list)
    hung: bool = False
    left: list[str] = field(default_factory=list)
    named: list[float] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return not (self.wrong or self.hung or self.left)


def judged(trial: Trial, record: Record) -> Verdict:
    """Compare what came of the trial with what must come of its fault."""
    verdict = Verdict(hung=bool(record.stacks), left=list(record.left))
    for rank, words in enumerate(record.words):
        verdict.wrong += [f"rank {rank}: {word['message']}" for word in words if word["what"] == "wrong"]
        code = record.codes[rank]
        if code is not None and code < 0 and code != GONE.get(trial.fault) and -code != signal.SIGKILL:
            verdict.wrong.append(f"rank {rank} was ended by {signal.Signals(-code).name}\n{record.errors[rank]}")
    if verdict.hung:
        return verdict
    if record.fault_at is None and trial.expected not in ("heals", "over"):
        _all_well(record, verdict)  # the job was over before the moment
        return verdict
    _EXPECTED[trial.expected](trial, record, verdict)
    return verdict


def _all_well(record: Record, verdict: Verdict, besides: frozenset[int] = frozenset()) -> None:
    for rank, words in enumerate(record.words):
        if rank not in besides and not _closed(words):
            verdict.wrong.append(f"rank {rank} did not go on to the end: {_raised(words)}\n{record.errors[rank]}")


def _lost(trial: Trial, record: Record, verdict: Verdict) -> None:
    for rank, words in enumerate(record.words):
        if rank not in trial.victims:
            _names(trial, rank, words, record, verdict)


def _either(trial: Trial, record: Record, verdict: Verdict) -> None:
    if FAULTS[trial.fault].place == "store":
        for rank, words in enumerate(record.words):
            _in_time(trial, rank, words, record, verdict)
        return
    if not _closed(record.words[trial.victim]):
        _lost(trial, record, verdict)
    else:
        _all_well(record, verdict)


def _in_time(trial: Trial, rank: int, words: list[dict[str, Any]], record: Record, verdict: Verdict) -> None:
    """It went on to the end, or raised within its limit."""
    if _closed(words):
        return
    error = _raised(words)
    if error is None:
        verdict.wrong.append(f"rank {rank} neither raised nor went on to the end\n{record.errors[rank]}")
        return
    assert record.fault_at is not None
    took = error["at"] - record.fault_at
    verdict.named.append(took)
    limit = trial.timeout * (1 if COMMUNICATION in error["kinds"] else 3)  # torch's store is tried again
    if took > limit + NAMED_WITHIN:
        verdict.wrong.append(f"rank {rank} raised after {took:.2f} s: {error}")


def _names(trial: Trial, rank: int, words: list[dict[str, Any]], record: Record, verdict: Verdict) -> None:
    """It raised in time and named a victim; at the end it may have had all that it needed."""
    error = _raised(words)
    if error is None:
        if not (trial.phase == "end" and _closed(words)):
            verdict.wrong.append(f"rank {rank} did not raise\n{record.errors[rank]}")
        return
    assert record.fault_at is not None
    took = error["at"] - record.fault_at
    verdict.named.append(took)
    limit = NAMED_WITHIN + (trial.timeout if trial.expected == "silent" or trial.phase == "meeting" else 0.0)
    if took > limit:
        verdict.wrong.append(f"rank {rank} raised after {took:.2f} s, and not within {limit:g} s: {error}")
    if COMMUNICATION not in error["kinds"]:
        if not (trial.face == "torch" and trial.phase == "meeting"):  # the store is torch's own
            verdict.wrong.append(f"rank {rank} raised {error}")
    elif error["rank"] not in (trial.victims | _held_up(trial, rank)):
        verdict.wrong.append(f"rank {rank} named rank {error['rank']}, not {trial.victims}: {error['message']}")


def _held_up(trial: Trial, rank: int) -> set[int]:
    """Ranks that wait for the victim in another group, for which this rank waits: at the timeout they are late here."""
    chained = trial.face == "hybrid" and trial.expected == "silent"
    return set(range(len(trial.machines))) - {rank} if chained else set()


def _cut(trial: Trial, record: Record, verdict: Verdict) -> None:
    """Either end of a path may be named."""
    for rank, words in enumerate(record.words):
        _in_time(trial, rank, words, record, verdict)
        error = _raised(words)
        if error is None:
            continue
        if COMMUNICATION not in error["kinds"]:
            verdict.wrong.append(f"rank {rank} raised {error}")
        elif error["rank"] == rank and trial.fault not in BLAMES_ITSELF:
            verdict.wrong.append(f"rank {rank} named itself: {error['message']}")


def _heals(trial: Trial, record: Record, verdict: Verdict) -> None:
    _all_well(record, verdict)


def _over(trial: Trial, record: Record, verdict: Verdict) -> None:
    """Nobody is left, which the leftovers tell."""


_EXPECTED = {"lost": _lost, "silent": _lost, "heals": _heals, "either": _either, "cut": _cut, "over": _over}


def _closed(words: list[dict[str, Any]]) -> bool:
    return any(word["what"] == "closed" for word in words)


def _raised(words: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((word for word in words if word["what"] == "raised"), None)
