"""Print what it costs to be wrong by two in each constant by which Paceline decides from what it has observed.

A subject is a simulation in which the real decisions are made from times that are made up, with noise, from fixed
seeds: `decisions` has a module for each room. A subject is carried out with each of its constants at half and at twice
its value, and a row says what became of its figures. The first row has those with every constant as it is; constants
that change none of them are left out. Of a constant that means a difference from 1, such as 1.12 or 0.97, the
difference is halved and doubled. Figures are those of the simulation: how noisy a machine is differs, so compare them
with the first row.

    python studies/decision_sensitivity.py           # all subjects; minutes
    python studies/decision_sensitivity.py drift
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from decisions import adapt, batches, coordinate, measure, topology, tune

MODULES = (tune, coordinate, adapt, topology, measure, batches)
SUBJECTS = {name: subject for module in MODULES for name, subject in module.SUBJECTS.items()}


def main(names: list[str]) -> None:
    for name in names or SUBJECTS:
        subject = SUBJECTS[name]
        right = subject.figures()
        print(f"\n{name}\n{'constant':24} {'value':>10}  " + "  ".join(right))
        print(_row("as it is", "", right, right))
        for constant in subject.constants:
            for wrong in subject.wrong(constant):
                with changed(subject.record, constant, wrong):
                    figures = subject.figures()
                if figures != right:
                    print(_row(constant, f"{wrong:.4g}", figures, right), flush=True)


def _row(constant: str, value: str, figures: dict[str, float], right: dict[str, float]) -> str:
    shown = (f"{figures[name]:{len(name)}.4g}" for name in right)
    return f"{constant:24} {value:>10}  " + "  ".join(shown)


@contextmanager
def changed(record: ModuleType, constant: str, wrong: float) -> Iterator[None]:
    """Give a constant another value, in its record and in the modules that have taken it over by name."""
    value = getattr(record, constant)
    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("paceline.") and not name.startswith("paceline.calibration.")
        if vars(module).get(constant) is value
    ]
    for module in (record, *users):
        setattr(module, constant, wrong)
    try:
        yield
    finally:
        for module in (record, *users):
            setattr(module, constant, value)


if __name__ == "__main__":
    main(sys.argv[1:])
