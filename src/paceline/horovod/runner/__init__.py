"""The names that scripts import from `horovod.runner`."""

from __future__ import annotations

from paceline.horovod.run_function import run

__all__ = ["run"]
