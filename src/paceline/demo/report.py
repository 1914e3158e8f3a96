"""The demo's output: one header line, a progress bar, one table, one verdict."""

from types import TracebackType
from typing import TYPE_CHECKING

from rich import progress
from rich.console import Console
from rich.table import Table

from paceline.demo.chance import needed
from paceline.demo.figure import Figure
from paceline.demo.result import WEIGHT_TOLERANCE, Result, Setup

if TYPE_CHECKING:
    from typing_extensions import Self

ROWS = (
    ("images/s", "images_per_second", ",.0f"),
    ("ms per step", "step_ms", ".1f"),
    ("  added by communication", "added_ms", ".1f"),
    ("  communication, total", "total_ms", ".1f"),
    ("    with all ranks ready", "transfer_ms", ".1f"),
    ("  communication, exposed", "exposed_ms", ".1f"),
    ("communication in all, s", "total_s", ".1f"),
    ("  exposed", "exposed_s", ".1f"),
)

console = Console(highlight=False)


class Progress:
    """A progress bar that `advance` draws, because a drawing thread would take time from rank 0's training."""

    def __init__(self, total: int, visible: bool) -> None:
        self._bar = progress.Progress(
            progress.BarColumn(bar_width=36),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.description}"),
            console=console,
            auto_refresh=False,
            disable=not (visible and console.is_terminal),
            transient=True,
        )
        self._task = self._bar.add_task("first epoch", total=total)

    def advance(self, text: str) -> None:
        """Count a finished epoch and show `text`."""
        self._bar.update(self._task, advance=1, description=text, refresh=True)

    def __enter__(self) -> "Self":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def print_header(setup: Setup, tested: str, reference: str) -> None:
    """Print what is about to run."""
    console.print(
        f"[bold]A residual CNN learns handwritten digits[/]: {setup.ranks} ranks × {setup.batch // setup.ranks} images"
        f" per step on {setup.cores} cores, {tested}, {reference} and no communication in turn,"
        " then one process."
    )


def print_result(result: Result) -> None:
    """Print the table, how to read it, and the verdict."""
    tested, reference, setup = result.tested, result.reference, result.setup
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column(tested.name, justify="right", style="bold")
    table.add_column(reference.name, justify="right")
    table.add_column("ratio", justify="right")
    table.add_row("test accuracy", f"{tested.accuracy:.1%}", f"{reference.accuracy:.1%}")
    for title, name, form in ROWS:
        cells = [_cell(getattr(side.figures, name), form) for side in (tested, reference)]
        ratio = result.compare(name).ratio
        table.add_row(title, *cells, "–" if ratio is None else f"{ratio:.2f}×")
    console.print()
    console.print(table)
    for sentence in unclear(result):
        console.print(sentence)
    console.print(
        f"[dim]Medians of {setup.epochs - 1} epochs of {setup.steps} steps ± half the distance of the quartiles; a"
        f" ratio is the median of the epochs' ratios; {setup.gradient_bytes / 1e6:.2f} MB of gradients per step in"
        f" {tested.figures.buckets} buckets."
        f" Added: against {result.without_ms.median:.1f} ms without all-reduces. Total: while one is in flight, mean of"
        " the ranks; with all ranks ready: counted from the last rank's issue. Exposed: while backward stands still.[/]"
    )
    console.print()
    console.print(_verdict(result))


def unclear(result: Result) -> list[str]:
    """Return a sentence for each reason why figures have no ratio, and for what would be needed for one."""
    rows: dict[str, list[str]] = {}
    for title, name, _ in ROWS:
        if reason := result.compare(name).reason:
            rows.setdefault(reason, []).append(title.strip())
    timed = result.setup.epochs - 1
    sentences = [
        f"No ratio (–){'' if len(titles) == len(ROWS) else ' for ' + '; '.join(titles)}: {reason}."
        for reason, titles in rows.items()
    ]
    if sentences and needed(timed) <= timed:
        sentences.append(
            f"What fewer than {needed(timed)} of the {timed} epochs agree on is within its spread, which other programs"
            " on the machine widen."
        )
    return sentences


def _cell(figure: Figure | float, form: str) -> str:
    if isinstance(figure, Figure):
        return f"{figure.median:{form}} [dim]± {figure.spread:{form}}[/]"
    return f"{figure:{form}}"


def _verdict(result: Result) -> str:
    if faults := result.faults():
        return f"[bold red]Failed[/]: {' and '.join(faults)}."
    agreement = result.agreement
    return (
        f"[bold green]Passed[/]: {result.tested.accuracy:.1%} of {result.setup.test_images} unseen digits are right."
        " The final weights are the same bits on all ranks; their largest difference is"
        f" {agreement.to_reference:.1e} to {result.reference.name} and"
        f" {agreement.to_one_process:.1e} to one process on the combined batch (limit {WEIGHT_TOLERANCE:g})."
    )
