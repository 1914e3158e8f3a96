"""The error of a command that cannot do what its arguments ask for."""

from __future__ import annotations

import typer

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""An error that becomes one sentence and exit code 2, see `paceline.cli.main.main`. Its name differs between versions
of Typer; its place in the hierarchy does not.
"""
