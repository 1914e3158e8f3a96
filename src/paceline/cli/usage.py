"""The error of a command that cannot do what its arguments ask for."""

from __future__ import annotations

import typer

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""An error that becomes one sentence and exit code 2, see `paceline.cli.main.main`. Its name differs between versions
of Typer; its place in the hierarchy does not.
"""

LINK = "NAME=SPEED[,LATENCY]"
"""A link, as commands take it that predict what a network does."""
LINKS = (
    "a machine's or switch's link, all machines' (uplink=10Gbit/s,5us), or all ranks' inside their machines "
    "(inner=nvlink4, inner=pcie4x8)"
)
