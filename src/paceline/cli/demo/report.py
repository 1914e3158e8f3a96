"""The output of the demo: one header line, one table, an explanation of it, one verdict."""

from rich.console import Console
from rich.table import Table

from paceline.cli.demo.chance import needed
from paceline.cli.demo.figure import Figure
from paceline.cli.demo.length import EPOCHS, SECONDS, combined_batch
from paceline.cli.demo.result import WEIGHT_TOLERANCE, Result

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
_NARROW = 76
"""Columns below which those of the table move together."""


def print_header(ranks: int, cores: int, tested: str, reference: str, epochs: int | None) -> None:
    """Print what is about to run. epochs: None if the machine's speed decides."""
    length = (
        f"This takes about {SECONDS:.0f} s at most, unless the machine is very busy."
        if epochs is None
        else f"Each trains {epochs} epochs."
    )
    _console().print(
        f"[bold]A residual CNN learns handwritten digits[/]: {_count(ranks, 'rank')} ×"
        f" {combined_batch(ranks) // ranks} images per step on {_count(cores, 'core')},"
        f" {tested}, {reference} and no communication in turn,"
        f" then one process. {length}"
    )


def print_result(result: Result) -> None:
    """Print the table, how to read it, and the verdict."""
    console = _console()
    tested, reference = result.tested, result.reference
    table = Table(box=None, pad_edge=False, padding=(0, 1 if console.width < _NARROW else 3, 0, 0))
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
    for sentence in (*unclear(result), *_shortened(result)):
        console.print(sentence)
    console.print(f"[dim]{_how_to_read(result)}[/]")
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


def _shortened(result: Result) -> list[str]:
    setup = result.setup
    if not setup.shortened:
        return []
    return [
        f"Each copy trained {setup.epochs} epochs and not {EPOCHS}, because the first of all copies took"
        f" {setup.first_epoch_s:.1f} s on this machine."
    ]


def _how_to_read(result: Result) -> str:
    setup = result.setup
    return (
        f"Medians of {_count(setup.epochs - 1, 'epoch')} of {setup.steps} steps ± half the distance of the quartiles; a"
        f" ratio is the median of the epochs' ratios; {setup.gradient_bytes / 1e6:.2f} MB of gradients per step in"
        f" {result.tested.figures.buckets} buckets. Added: against {result.without_ms.median:.1f} ms without"
        " all-reduces. Total: while one is in flight, mean of the ranks; with all ranks ready: counted from the last"
        " rank's issue. Exposed: while backward stands still."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _console() -> Console:
    """Return the console of stdout. With NO_COLOR it has no other styles either: no control characters at all."""
    console = Console(highlight=False)
    return Console(highlight=False, color_system=None) if console.no_color else console


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
