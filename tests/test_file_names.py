"""Folders of tests are no packages: pytest imports every file of tests by its bare name, so no two may share one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def test_no_two_files_of_tests_share_a_name() -> None:
    uses = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in uses.items() if count > 1] == []
