"""What an import brings with it."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import importlib.metadata, sys
{first}
before = set(sys.modules)
{then}
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print("found:", *sorted(new & set(importlib.metadata.packages_distributions())))
"""


def other_packages(face: str, first: str) -> set[str]:
    """The installed packages but Paceline of which the statement `face` loads something after `first`.

    Both run in a process of their own.
    """
    code = _CODE.format(first=first, then=face)
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300)
    return set(run.stdout.rpartition("found:")[2].split()) - {"paceline"}
