"""A million random blocks through every codec, by the engine's own trial of them.

Thousands of them are among the C++ tests.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE = 600
"""Seconds; the trial itself takes half a minute of a core."""


@pytest.mark.long
@pytest.mark.timeout(DEADLINE)
def test_bounds_are_kept_and_nothing_crashes(tmp_path):
    library = ROOT / "build" / "engine" / "libengine.a"
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DPACELINE_BUILT_ENGINE={library}"]
    subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, *options], check=True)
    subprocess.run(["cmake", "--build", tmp_path, "--target", "codec_tests"], check=True)
    program = tmp_path / "engine" / "tests" / "codec_tests"
    subprocess.run([program, "a_million_random_blocks"], check=True, timeout=DEADLINE)
