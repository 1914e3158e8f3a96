"""Turns what goes wrong in a benchmark into a sentence and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from paceline.lab.namespaces import Unavailable
from paceline_bench.session import SessionFailed, Unsupported
from paceline_bench.systems import Missing

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: a result was wrong or a system failed; a requested system cannot be measured; Ctrl-C."""


@contextmanager
def ending(err: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a sentence on `err`. Errors raised inside become a sentence and typer.Exit."""

    def complain(text: str) -> None:
        err.print(text, style="red", highlight=False, markup=False, soft_wrap=True)

    try:
        yield complain
    except (SessionFailed, Unsupported) as error:
        complain(str(error))
        raise typer.Exit(FAILED) from None
    except (Unavailable, Missing) as reason:
        complain(str(reason))
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        err.print("Interrupted; every rank was ended.")
        raise typer.Exit(INTERRUPTED) from None
