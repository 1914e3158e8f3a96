"""Shows how far the demo is, from the command's first second on: starting ranks and importing torch takes a while.

The command draws and not rank 0, which only appends a line to a file after each epoch: that costs its training nothing,
and there is something to draw before rank 0 exists.
"""

import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from rich import progress
from rich.console import Console
from rich.table import Column

if TYPE_CHECKING:
    from typing_extensions import Self

_DRAW_SECONDS = 0.5
LINE_SECONDS = 12.0
"""Seconds between two lines where there is no terminal to draw a bar on."""
_START = "starting ranks, importing torch"


class Stage(NamedTuple):
    """The number of finished epochs of all copies, their total, and what was done last."""

    done: int
    total: int
    text: str


def tell(file: Path | None, stage: Stage) -> None:
    """Append the stage to the file, if there is one."""
    if file:
        with file.open("a") as lines:
            lines.write(f"{stage.done} {stage.total} {stage.text}\n")


def read(file: Path) -> Stage:
    """Return the last stage that was told."""
    whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
    if not whole:
        return Stage(0, 1, _START)
    done, total, text = whole.splitlines()[-1].split(" ", 2)
    return Stage(int(done), int(total), text)


class Progress:
    """Shows what `tell` wrote to `file` while the context is open, on stderr: a bar on a terminal, else some lines.

    Where NO_COLOR is set or the terminal cannot move its cursor, there are lines, too.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        console = Console(stderr=True, highlight=False)
        self._draws = sys.stderr.isatty() and not (console.no_color or console.is_dumb_terminal)
        self._bar = progress.Progress(
            progress.BarColumn(bar_width=16),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
        )
        self._task = self._bar.add_task(_START, total=1)
        self._begun = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress")

    def __enter__(self) -> "Self":
        if self._draws:
            self._bar.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._draws:
            self._bar.stop()

    def _show(self) -> None:
        while not self._ended.wait(_DRAW_SECONDS if self._draws else LINE_SECONDS):
            stage = read(self._file)
            if self._draws:
                self._bar.update(
                    self._task, completed=stage.done, total=stage.total, description=stage.text, refresh=True
                )
            else:
                print(line(stage, time.monotonic() - self._begun), file=sys.stderr, flush=True)


def line(stage: Stage, seconds: float) -> str:
    """Return what is said of a stage where no bar can be drawn. seconds: since the start."""
    return f"paceline: after {seconds:.0f} s {stage.done / stage.total:.0%}: {stage.text}"
