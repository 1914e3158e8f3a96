"""Measures what an import costs above another: `python scripts/import_cost.py "import jax" "import jax, paceline.jax"`.

Both are run in turn in new processes of this Python. It prints the CPU time, user and system, of each in seconds, as
medians with the fastest and the slowest, and the median of the differences of neighbours. Run it with the Python of the
environment that has the framework.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys


def cpu_seconds(statement: str) -> float:
    """Return the CPU time of a process that runs a statement. Raises SystemExit if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", statement], environment)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise SystemExit(f"import_cost: this fails: {statement}")
    return usage.ru_utime + usage.ru_stime


def shown(seconds: list[float]) -> str:
    """Return the median of these times, and their ends."""
    return f"{statistics.median(seconds):6.3f} s ({min(seconds):.3f} to {max(seconds):.3f})"


def main() -> None:
    """Measure, and print three lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", help="a statement, such as 'import jax'")
    parser.add_argument("more", help="a statement that does more, such as 'import jax, paceline.jax'")
    parser.add_argument("--runs", type=int, default=11, help="runs of each (default: 11)")
    chosen = parser.parse_args()
    for statement in (chosen.base, chosen.more):
        cpu_seconds(statement)  # compiles what was not compiled
    pairs = [(cpu_seconds(chosen.base), cpu_seconds(chosen.more)) for _ in range(chosen.runs)]
    before, after = ([pair[which] for pair in pairs] for which in (0, 1))
    print(f"{shown(before)}  {chosen.base}")
    print(f"{shown(after)}  {chosen.more}")
    print(f"{shown([more - base for base, more in pairs])}  the difference")


if __name__ == "__main__":
    main()
