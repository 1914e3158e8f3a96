"""Runs a script as `python` would."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import standin

standin.install()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
