"""A forked child, such as a data loader's worker, has its parent's groups but is no rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import PROGRAMS, run


@pytest.mark.parametrize("machines", ["00", "01"])
@pytest.mark.parametrize("ending", ["exit", "_exit"])
def test_every_call_is_refused_in_a_forked_child(machines: str, ending: str, tmp_path: Path) -> None:
    run(len(machines), PROGRAMS / "forked.py", machines, ending, output=tmp_path, deadline=150)
