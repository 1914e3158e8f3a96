"""`paceline doctor` examines this machine and shows how Paceline would use it."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.doctor.report import show, to_json
from paceline.cli.doctor.survey import survey


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Show what Paceline finds on this machine, what it would use and why, and what would be better."""
    findings = survey(dict(os.environ))
    if as_json:
        print(to_json(findings))
    else:
        show(findings, Console())
    return 0
