"""Results of the demo, made up by hand."""

from dataclasses import replace

from paceline.cli.demo.figure import Figures, figure
from paceline.cli.demo.result import Agreement, Result, Setup, Side

EPOCHS = 12


def some_figures(epochs: int = EPOCHS, **changed: "list[float] | float") -> Figures:
    """Figures that are the same in every timed epoch, but for those that are given epoch by epoch, or as a total."""
    same = figure([10.0] * (epochs - 1))
    found = {name: figure(value) if isinstance(value, list) else value for name, value in changed.items()}
    return replace(Figures(same, same, same, same, same, same, 10.0, 10.0, 2), **found)


def a_result(
    accuracy: float = 0.99,
    reference: float = 1e-7,
    alone: float = 1e-7,
    same: bool = True,
    *,
    epochs: int = EPOCHS,
    tested: "Figures | None" = None,
    beside: "Figures | None" = None,
) -> Result:
    """A result that has passed unless an argument says otherwise."""
    setup = Setup("2.13", 4, 2, epochs, 5.5, epochs < EPOCHS, 22, 64, 1437, 360, 303_000, 1_212_000)
    sides = [
        Side(name, accuracy, figures or some_figures(epochs))
        for name, figures in (("paceline", tested), ("gloo", beside))
    ]
    return Result(setup, figure([37.4] * (epochs - 1)), *sides, Agreement(reference, alone, same))
