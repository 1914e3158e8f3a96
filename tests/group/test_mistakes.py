"""A call that raises on one rank before anything is sent: ranks that wait in it hear why, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import PROGRAMS, run


@pytest.mark.parametrize("machines", ["00", "01"])
def test_a_mistake_on_one_rank_is_told_to_the_others(machines: str, tmp_path: Path) -> None:
    run(2, PROGRAMS / "mistakes.py", machines, output=tmp_path, deadline=120)
