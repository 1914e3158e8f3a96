"""The protocol by which ranks take turns in shared memory, checked by Spin over all interleavings of small worlds."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "engine" / "segment" / "segment.pml"
DEADLINE = 300

pytestmark = [pytest.mark.needs("spin"), pytest.mark.timeout(DEADLINE), pytest.mark.long]


def errors(folder: Path, *definitions: str) -> tuple[int, str]:
    """How many errors the checker finds, and what it says."""
    for command in (
        ["spin", "-a", *(f"-D{definition}" for definition in definitions), str(MODEL)],
        ["cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4000", "-o", "pan", "pan.c"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=DEADLINE)
    ran = subprocess.run(["./pan", "-m1000000", "-n"], cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
    assert "Search not completed" not in ran.stdout or "errors: 0" not in ran.stdout, ran.stdout
    found = re.search(r"errors: (\d+)", ran.stdout)
    assert found, ran.stdout
    return int(found[1]), ran.stdout


@pytest.mark.parametrize(
    "world",
    [
        ("RANKS=2", "EPOCHS=2"),
        ("RANKS=2", "EPOCHS=3", "UNEXPOSED"),
        ("RANKS=2", "EPOCHS=4", "UNEXPOSED", "ONE_ROOT"),
        ("RANKS=2", "EPOCHS=3", "UNROOTED"),
        ("RANKS=2", "EPOCHS=4", "UNROOTED", "UNEXPOSED"),
        ("RANKS=3", "EPOCHS=1"),
    ],
    ids=" ".join,
)
def test_no_rank_reads_too_early_or_sleeps_for_ever(world: tuple[str, ...], tmp_path: Path) -> None:
    count, said = errors(tmp_path, *world)
    assert count == 0, said


@pytest.mark.parametrize("fault", ["NO_FENCE", "NO_ENTRY", "FEW_CELLS UNEXPOSED", "WAKE_NEVER", "NO_TAKING"])
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    assert errors(tmp_path, "RANKS=2", "EPOCHS=4", *fault.split())[0] > 0
