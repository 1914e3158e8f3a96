"""The results of a run of the demo, and whether they are good."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from paceline.cli.demo.chance import Comparison, compare
from paceline.cli.demo.figure import Figure, Figures

ACCURACY_FLOOR = 0.97
"""The lowest accuracy that passes, as a share of the test images."""
WEIGHT_TOLERANCE = 3e-5
"""The largest difference between two weights that counts as rounding. Adding the same gradients in other orders
leads to differences of 4e-7 to 3e-6; leaving out one rank in any one of the first 200 steps of 264, or of the first 90
of 110, leads to 7e-5 to 4e-2.
"""

_TOTALS = {"total_s": "total_ms", "exposed_s": "exposed_ms"}
"""Totals of all epochs, and the figures that hold the epochs' shares of them."""


@dataclass(frozen=True)
class Setup:
    """The setup of the training that ran.

    first_epoch_s: seconds that the first epoch of all copies took. shortened: whether there are fewer epochs for that
    reason. batch: images per step, all ranks together. gradient_bytes: bytes that each step all-reduces.
    """

    torch: str
    ranks: int
    cores: int
    epochs: int
    first_epoch_s: float
    shortened: bool
    steps: int
    batch: int
    training_images: int
    test_images: int
    weights: int
    gradient_bytes: int


@dataclass(frozen=True)
class Side:
    """One backend's training. name: as the process group reports it. accuracy: on the test images, from 0 to 1."""

    name: str
    accuracy: float
    figures: Figures


@dataclass(frozen=True)
class Agreement:
    """The largest absolute differences between final weights, and whether they are bitwise equal on all ranks."""

    to_reference: float
    to_one_process: float
    same_on_all_ranks: bool


@dataclass(frozen=True)
class Result:
    """One run of the demo: the backend under test, the reference beside it, and their agreement.

    without_ms: the milliseconds of a step without communication.
    """

    setup: Setup
    without_ms: Figure
    tested: Side
    reference: Side
    agreement: Agreement

    def faults(self) -> list[str]:
        """Return what is wrong, one clause each; empty if the demo passed."""
        faults = []
        if self.tested.accuracy < ACCURACY_FLOOR:
            faults.append(f"the accuracy {self.tested.accuracy:.1%} is below {ACCURACY_FLOOR:.0%}")
        for other, difference in (
            (self.reference.name, self.agreement.to_reference),
            ("one process", self.agreement.to_one_process),
        ):
            if not difference <= WEIGHT_TOLERANCE:
                faults.append(
                    f"the weights differ from those of {other} by {difference:.1e}, over {WEIGHT_TOLERANCE:g}"
                )
        if not self.agreement.same_on_all_ranks:
            faults.append("the ranks do not have the same weights")
        return faults

    def compare(self, name: str) -> Comparison:
        """Compare the figure `name` of the tested backend with that of the reference."""
        tested, reference = self.tested.figures, self.reference.figures
        names = (self.tested.name, self.reference.name)
        if name not in _TOTALS:
            return compare(getattr(tested, name), getattr(reference, name), names)
        found = compare(getattr(tested, _TOTALS[name]), getattr(reference, _TOTALS[name]), names)
        return found if found.ratio is None else Comparison(getattr(tested, name) / getattr(reference, name))

    def to_json(self) -> dict[str, Any]:
        """Return everything, with the ratios (None where chance may be all) and the verdict, as JSON values."""
        compared = {field.name: self.compare(field.name) for field in fields(Figures) if field.name != "buckets"}
        return {
            **asdict(self),
            "ratio": {name: of.ratio for name, of in compared.items()},
            "no_ratio": {name: of.reason for name, of in compared.items() if of.ratio is None},
            "limits": {"accuracy": ACCURACY_FLOOR, "weight_difference": WEIGHT_TOLERANCE},
            "passed": not self.faults(),
            "faults": self.faults(),
        }
