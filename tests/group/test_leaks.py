"""What users make and close may be made and closed for ever: memory, descriptors and threads stay as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jobs import PROGRAMS, TORCH, run

KINDS = {
    "groups": 2,
    "new_group": 2,
    "board": 3,
    "graph": 3,
    "cycle": 3,
    "inits": 2,
    "timelines": 2,
    "loaders": 2,
    "buckets": 2,
}
"""Ranks of each: a process set is a part of them."""


ROUNDS = os.environ.get("LEAK_ROUNDS", "150")
"""`make leaks` asks for 3000."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_what_was_closed(kind: str, tmp_path: Path) -> None:
    run(
        *(KINDS[kind], PROGRAMS / "leaks.py", kind, ROUNDS, str(tmp_path)),
        output=tmp_path,
        imports=TORCH,
        deadline=1000,
    )
