"""`paceline report` shows what a job wrote to the file named by PACELINE_REPORT."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.output_file import UsageError


def command(
    file: Annotated[
        Path, typer.Argument(help="The file that the job wrote: PACELINE_REPORT=FILE.", show_default=False)
    ],
) -> int:
    """Show the report of a run: steps, exposed communication, what coordination cost, which rank was late."""
    from rich.console import Console

    from paceline.report.report import read
    from paceline.report.show import show
    from paceline.verdict.of_report import verdict

    try:
        report = read(file)
        show(report, verdict(report, str(file)).text, Console())
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    return 0
