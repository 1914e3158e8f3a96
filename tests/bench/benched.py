"""`paceline bench` as a person starts it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def command(*words: object) -> list[str]:
    """Its command line."""
    return [sys.executable, "-m", "paceline", "bench", *map(str, words)]


def bench(*words: object, seconds: float = 250, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=seconds, **options)
