"""Paceline with a planted error, for the tests."""

from __future__ import annotations

from ranks.raw import Raw


class Planted(Raw):
    """Paceline, but rank 1's result has one wrong element."""

    def bind(self, case, source, target):
        call = super().bind(case, source, target)

        def planted():
            call()
            if case.rank == 1 and target[-1] != 0:
                target[-1] += 1

        return planted
