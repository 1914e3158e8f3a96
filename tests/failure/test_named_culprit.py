"""Whom an error blames where several ranks have gone, or the one that was wrong has."""

from __future__ import annotations

from pathlib import Path

from jobs import PROGRAMS, job

DEADLINE = 60.0


def said(folder: Path, ranks: int, what: str, who: int) -> str:
    """What rank `who` says."""
    with job(ranks, PROGRAMS / "named_culprit.py", what, output=folder) as running:
        for process in running.processes:
            process.wait(DEADLINE)
    return (folder / f"rank-{who}.out").read_text()


def test_the_second_loss_is_that_of_a_member(tmp_path: Path) -> None:
    told = said(tmp_path, 4, "two losses", 2)
    assert told.startswith("3 PeerLost: all_reduce #1 float32[8] SUM ") and "rank 3 (" in told, told
    assert "; before that, rank 0 (" in told, "the first loss is told, too"


def test_a_wrong_message_is_told_of_also_after_its_sender_has_left(tmp_path: Path) -> None:
    told = said(tmp_path, 2, "left", 1)
    assert "Mismatch: recv #1 float32[4] failed: rank 0 (" in told, told
    assert "sent 32 bytes in send #1 float32[8]" in told and "expects 16" in told, told
