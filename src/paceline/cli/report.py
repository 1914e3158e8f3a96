"""`paceline report` shows what a job wrote to the file named by PACELINE_REPORT."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError


def command(
    file: Annotated[
        Path, typer.Argument(help="The file that the job wrote: PACELINE_REPORT=FILE.", show_default=False)
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write it as one page for a browser instead.", show_default=False, callback=writable
        ),
    ] = None,
) -> int:
    """Show the report of a run: what limits it, steps, exposed communication, coordination, which rank was late."""
    from rich.console import Console

    from paceline.observe.report import read
    from paceline.report.page.content import report_page
    from paceline.report.show import show
    from paceline.report.verdict.of_report import verdict

    try:
        report = read(file)
        if html is not None:
            write(html, lambda: report_page(report, file.name))
            print(f"{html}: {report.size} rank{'s' if report.size != 1 else ''}; open it in a browser")
            return 0
        show(report, verdict(report, str(file)).text, Console())
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    return 0
