"""The tests that are marked `long` run in CI once they change."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_folders_with_long_tests_are_covered() -> None:
    command = ["make", "--silent", "--no-print-directory", "long-covers"]
    covered = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    mark = "pytest.mark." + "long"
    folders = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("tests/**/*.py") if mark in path.read_text()}
    assert "tests/torch" in folders
    assert folders <= set(covered)
