"""What a characterisation starts, and in which order, however much of it is there already."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline_bench.characterize.measure import Effort
from paceline_bench.characterize.run import Study, parts
from paceline_bench.systems import System

NAMES = ("baidu-ring", "gloo", "openmpi", "paceline")
BATCHES = (2, 8, 32)
SYSTEMS = [System(name, "torch", "") for name in NAMES]


def study(at_once: int | None) -> Study:
    return Study(None, 2, ["MobileNet"], BATCHES, 32, Effort(3, 1), at_once, 10.0)


@given(st.sets(st.tuples(st.sampled_from(BATCHES), st.sampled_from(NAMES))), st.none() | st.integers(1, 5))
def test_all_that_is_missing_is_measured_once_by_no_more_than_was_asked(done, at_once):
    asked = study(at_once)
    by_batch = {one.batch: one for one in asked.configurations()}
    todo = list(parts([(asked, SYSTEMS)], {(by_batch[batch], name) for batch, name in done}))
    for part in todo:
        assert 1 <= len(part.systems) <= (at_once or len(NAMES))
        assert {name for _, names in part.missing for name in names} == {one.name for one in part.systems}
        assert all(names for _, names in part.missing)
    measured = [(each.batch, name) for part in todo for each, names in part.missing for name in names]
    assert sorted([*measured, *done]) == sorted((batch, name) for batch in BATCHES for name in NAMES)
    assert len(todo) <= 1 or at_once is not None
