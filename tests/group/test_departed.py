"""A rank closes a group and lives on: the others are told once they need it there."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import PROGRAMS, run


@pytest.mark.parametrize("machines", ["00", "01"])
def test_a_rank_that_has_closed_the_group_is_named(machines: str, tmp_path: Path) -> None:
    run(2, PROGRAMS / "departed.py", machines, output=tmp_path, deadline=120)


PLACEMENTS_AND_ROUNDS = [("00", 12), ("0000", 4), ("01", 4), ("001", 3), ("011", 3), ("010", 3)]


@pytest.mark.parametrize(("machines", "rounds"), PLACEMENTS_AND_ROUNDS)
def test_a_rank_may_close_a_group_as_soon_as_its_part_is_done(machines: str, rounds: int, tmp_path: Path) -> None:
    run(len(machines), PROGRAMS / "closed_at_once.py", machines, str(rounds), output=tmp_path, deadline=250)
