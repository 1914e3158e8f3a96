"""The simulated trees of the tests of switches."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "topology"))

from max_min import FairNetwork
from simulated_trees import errors, hindering_tree, inferred, measured, switches, tree

__all__ = ["FairNetwork", "errors", "hindering_tree", "inferred", "measured", "switches", "tree"]
