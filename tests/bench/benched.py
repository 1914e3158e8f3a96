"""`paceline bench` as a person starts it, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from commands import paceline


def command(*words: object) -> list[str]:
    """Its command line."""
    return [sys.executable, "-m", "paceline", "bench", *map(str, words)]


def bench(*words: object, seconds: float = 250, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=seconds, **options)


def refused(*words: object) -> str:
    """What it says, on one line, of words that it refuses before it does anything."""
    code, out, err = paceline("bench", *words)
    assert (code, out) == (2, ""), err
    return " ".join(err.split())
