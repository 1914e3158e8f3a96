"""Writes the report of a run where the user wants it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from paceline.formats.files import write_file
from paceline.observe.report import Report, to_json

log = logging.getLogger("paceline")


def leave(report: Report, place: str, verdict: Callable[[Report], str]) -> None:
    """Write the report to the place that PACELINE_REPORT names: JSON to a file, or tables to stderr for "-".

    verdict: returns what stands above the tables. If the file cannot be written, that is logged and not raised.
    """
    if place == "-":
        from rich.console import Console  # which takes a while to import

        from paceline.report.show import show

        show(report, verdict(report), Console(stderr=True))
        return
    try:
        write_file(Path(place), to_json(report) + "\n")
    except OSError as error:
        log.warning("cannot write the report %s: %s", place, error.strerror)
