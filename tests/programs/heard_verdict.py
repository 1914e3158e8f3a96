"""Ranks that all-reduce 1 MB, and do so until rank 0 logs what limits them; it writes that to its standard output."""

from __future__ import annotations

import logging

import numpy as np

import paceline


class Verdicts(logging.Handler):
    """The warnings of this rank that are verdicts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "% of the step" in record.getMessage():
            self.found.append(record.getMessage())


verdicts = Verdicts()
logging.getLogger("paceline").addHandler(verdicts)
with paceline.init() as group:
    data, heard = np.ones(250_000, np.float32), np.zeros(1)
    while not heard[0]:
        data[:] = 1
        group.all_reduce(data)
        heard[0] = len(verdicts.found)
        group.all_reduce(heard)
    for _ in range(40):  # it is said once
        group.all_reduce(data)
print(*verdicts.found, sep="\n")
