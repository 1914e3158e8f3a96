"""Before which calls of a group its ranks stop to look at what the last ones took."""

from pathlib import Path

from jobs import TORCH, run


def test_a_group_looks_before_the_large_calls_that_were_chosen(tmp_path: Path) -> None:
    run(2, Path(__file__).with_name("watched.py"), output=tmp_path, imports=TORCH)
