"""Formats the findings as a table for people and as JSON for programs."""

import dataclasses
import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli.doctor.finding import Finding


def to_json(findings: Sequence[Finding]) -> str:
    """Return a JSON list of objects with the keys topic, value, reason and advice."""
    return json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2)


def show(findings: Sequence[Finding], console: Console) -> None:
    """Print the table, then the advice."""
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for heading in ("", "found", "because"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        value = Text(finding.value, style="yellow" if finding.advice else "")
        table.add_row(Text(finding.topic, style="bold"), value, Text(finding.reason, style="dim"))
    console.print(table)
    advised = [finding for finding in findings if finding.advice]
    console.print(Text("\nWhat would be better" if advised else "\nNothing to improve.", style="bold"))
    for finding in advised:
        console.print(Text(f"  {finding.topic}: {finding.advice}"))
