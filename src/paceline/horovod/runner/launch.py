"""horovodrun's entry point, for scripts that call it."""

from __future__ import annotations

import sys

from paceline.horovod.run import main

__all__ = ["run_commandline"]


def run_commandline() -> None:
    """Run the job that the command line describes. Raises SystemExit with the code of the rank that failed first."""
    code = main()
    if code:
        sys.exit(code)
