"""Scripts that end without leaving their job: what is written at exit is written, and nobody waits for them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from jobs import PROGRAMS, RAW, TORCH, job

from paceline.observe.trace import dump

DEADLINE = 100.0
STEPS = 20


@pytest.mark.parametrize(
    ("face", "how"),
    [("raw", "end"), ("raw", "raise"), ("raw", "talk"), ("raw", "child"), ("raw", "alone"), ("horovod", "alone")],
)
def test_what_is_written_at_exit_is_written(face: str, how: str, tmp_path: Path) -> None:
    timeline, report, output = tmp_path / "timeline.json", tmp_path / "report.json", tmp_path / "output"
    output.mkdir()
    own = {"PACELINE_TRACE": str(tmp_path / "trace"), "PACELINE_TIMEOUT": "60"}
    if how != "alone":  # rank 0 would wait for rank 1's figures
        own["PACELINE_REPORT"] = "-" if how == "raise" else str(report)
    imports = TORCH if face == "horovod" else None if how == "end" else RAW  # one has interpreters of its own
    words = (face, str(STEPS), str(timeline), how)
    with job(2, PROGRAMS / "leaving.py", *words, output=output, env=own, imports=imports) as running:
        codes = [process.wait(DEADLINE) for process in running.processes]
    told = [(output / f"rank-{rank}.err").read_text() for rank in range(2)]
    assert codes == [1 if how == "raise" else 0, 0], told
    assert "Exception ignored" not in "".join(told)
    assert told[0].count("Traceback") == (how == "raise") and "Traceback" not in told[1], told

    records = json.loads(timeline.read_text())
    names = Counter(record["name"] for record in records)
    assert names["ALLREDUCE"] == STEPS + (how == "talk")
    # What nobody answers fails once rank 1 has left; rank 0 may have written its last record before.
    assert names["NEGOTIATE_ALLREDUCE"] - names["ALLREDUCE"] in ((0, 1) if how == "raise" else (0,))
    assert [len(one.requests) >= STEPS for one in dump.read(tmp_path / "trace")] == [True, True]
    if how == "alone":
        assert "rank 0 (host " in (output / "rank-1.out").read_text()
    elif how == "raise":
        assert re.search(r"^ +1 \S+ .* %", told[0], re.MULTILINE), told[0]
    else:
        assert [rank["figures"]["rank"] for rank in json.loads(report.read_text())["ranks"]] == [0, 1]


def test_what_no_call_has_said_is_said_in_a_line(tmp_path: Path) -> None:
    with job(2, PROGRAMS / "unheard.py", output=tmp_path, imports=None) as running:
        codes = [process.wait(DEADLINE) for process in running.processes]
    told = [(tmp_path / f"rank-{rank}.err").read_text() for rank in range(2)]
    assert codes == [0, 0] and told[1] == "", told
    sent = r"rank 0 \(host .+, pid \d+\) sent float32\[4\] with tag 0, rank 1 \(host .+, pid \d+\) expects int32"
    assert re.fullmatch(rf"Mismatch: {sent}\n", told[0]), told
