"""Flight-recorder files, judged by torch's own fr_trace."""

import gc
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from event_rows import dumps_of, row

from paceline.observe.trace import flight
from paceline.observe.trace.dump import Dump, Group

MODULE = "torch.distributed.flight_recorder.fr_trace"
COLLECTIVES = "all_reduce broadcast reduce all_gather reduce_scatter gather scatter all_to_all barrier".split()

Analyse = Callable[..., str]


@pytest.fixture
def analyse(tmp_path: Path) -> Analyse:
    """What fr_trace says about dumps, given these options; run in this process, because importing torch takes
    seconds."""
    main = pytest.importorskip(MODULE).main
    from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger

    class Lines(logging.Handler):
        def __init__(self) -> None:
            super().__init__()
            self.lines: list[str] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.lines.append(record.getMessage())

    def analyse(dumps: list[Dump], *options: str) -> str:
        flight.write(dumps, str(tmp_path / "trace_"))
        lines = Lines()
        logger = FlightRecorderLogger().logger
        logger.addHandler(lines)
        try:
            main([*options, str(tmp_path)])
        finally:
            logger.removeHandler(lines)
            gc.enable()  # fr_trace switches it off
        return "\n".join(lines.lines)

    return analyse


def test_ranks_that_agree(analyse: Analyse, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = [row(n + 1, 5, n, name) for n, name in enumerate(COLLECTIVES)]
    said = analyse(dumps_of(rows, rows), "-p", "trace_", "-o", str(tmp_path / "db")).lower()
    said += "".join(capfd.readouterr()).lower()
    assert "missing" not in said and "error" not in said and "mismatch" not in said
    assert (tmp_path / "db").stat().st_size > 0


def test_the_missing_rank_is_named(analyse: Analyse) -> None:
    both = [row(n, 5, n) for n in range(1, 4)]
    stuck = row(4, 5, 4, end_ns=0, state="running")
    world = {5: Group("world", (0, 1, 2))}
    said = analyse(dumps_of([*both, stuck], both, [*both, stuck], groups=world))
    assert "Not all ranks joining collective, sequence number: 4" in said
    assert "missing ranks: {1}" in said
    assert "world (paceline)" in said


def test_a_shape_that_differs_is_found(analyse: Analyse) -> None:
    first, second = row(1, 5, 1, state="failed"), row(1, 5, 1, size=8192, state="failed")
    assert "SIZE_OR_SYNTAX_MISMATCH" in analyse(dumps_of([first], [second]))


def test_rings_that_begin_at_different_operations_are_aligned(analyse: Analyse) -> None:
    long = [row(n, 5, n) for n in range(1, 30)]
    # Rank 1 also sends, so that its ring has lost more.
    short = [row(n + 10, 5, n) for n in range(12, 30)]
    short.insert(3, row(999, 5, 3, "send"))
    said = analyse(dumps_of(long, short))
    assert "missing" not in said and "mismatch" not in said.lower()


def test_subgroups_keep_their_own_sequence(analyse: Analyse) -> None:
    groups = {5: Group("world", (0, 1)), 6: Group("only 1", (1,))}
    world = [row(n, 5, n) for n in range(1, 5)]
    alone = [row(n + 100, 6, n) for n in range(1, 9)]
    said = analyse(dumps_of(world, [*alone, *world], groups=groups))
    assert "missing" not in said and "mismatch" not in said.lower()


def test_without_a_description_members_are_the_users_of_a_group() -> None:
    dumps = dumps_of([row(1, 5, 0)], [row(1, 5, 0), row(2, 6, 0)])
    assert flight.pg_config(flight.groups_of(dumps), 0) == {
        "5": {"name": "5", "desc": "group 0 (paceline)", "ranks": "[0, 1]"}
    }
