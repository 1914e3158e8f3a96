"""A few of the programs that the machine draws. `make differential` judges as many as there is time for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from kinds import kinds
from machine import Kind, explore

PROGRAMS = {"torch": 40, "horovod": 12, "hybrid": 8, "optimizer": 40, "loader": 12}
"""Programs of each kind."""


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, Kind]]:
    with kinds() as all_of_them:
        yield {kind.name: kind for kind in all_of_them}


@pytest.mark.parametrize("name", PROGRAMS)
def test_none_comes_out_wrong(known: dict[str, Kind], name: str) -> None:
    row = explore(known[name], seed=1, seconds=float("inf"), most=PROGRAMS[name])
    assert row.programs == row.equal + row.refused == PROGRAMS[name], "\n".join(row.found)


def test_what_comes_out_wrong_is_found_and_made_small(known: dict[str, Kind]) -> None:
    """A judge for whom any broadcast is wrong."""

    def judge(program: object) -> str:
        calls = [step.call for step in program.steps]  # type: ignore[attr-defined]
        assert "broadcast" not in calls, calls
        return "equal"

    row = explore(Kind("planted", known["torch"].programs, judge), seed=1, seconds=float("inf"), most=50)
    assert row.different > 0 and row.different + row.equal == row.programs
    assert all(text.startswith("['broadcast']") for text in row.found)


def test_the_first_that_comes_out_wrong_is_judged_once() -> None:
    judged: list[int] = []

    def judge(program: int) -> str:
        judged.append(program)
        assert program % 7 != 3, program
        return "equal"

    row = explore(Kind("planted", st.integers(0, 99), judge), seed=1, seconds=float("inf"), first=True)
    assert row.different == 1 and row.programs == len(judged) and judged[-1] % 7 == 3
