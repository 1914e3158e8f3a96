"""How calls end before all ranks have come: late ranks hear of it, and touch no memory of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import PROGRAMS, job, words


@pytest.mark.parametrize("ending", ["argument", "timeout", "abort", "close", "leave", "death"])
@pytest.mark.parametrize("way", ["arena", "private", "apart"])
def test_a_late_rank_hears_of_every_end(way: str, ending: str, tmp_path: Path) -> None:
    with job(2, PROGRAMS / "endings.py", way, ending, output=tmp_path) as running:
        running.wait(120)
        codes = [process.returncode for process in running.processes]
    assert codes == ([-9, 0] if ending == "death" else [0, 0]), words(tmp_path)
