"""Names of files and folders that are on the path, and what they must not be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

FRAMEWORKS = {"jax", "keras", "numpy", "tensorflow", "torch"}


def test_no_two_files_of_tests_share_a_name() -> None:
    """Folders of tests are no packages: pytest imports every file of tests by its bare name."""
    uses = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in uses.items() if count > 1] == []


def test_no_folder_beside_the_ranks_of_benchmarks_is_taken_for_a_framework() -> None:
    """`paceline bench` puts the folder of `ranks` on their path, where a framework's own imports would find another."""
    beside = {path.name for path in (Path(__file__).parents[1] / "bench/paceline_bench").iterdir()}
    assert "ranks" in beside
    assert not beside & FRAMEWORKS
