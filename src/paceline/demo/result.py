"""What a run of the demo found, and whether that is good."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from paceline.demo.figures import Figure, Figures

ACCURACY_FLOOR = 0.97
WEIGHT_TOLERANCE = 3e-5
"""Largest difference between two weights that passes for rounding. Adding the same gradients in other orders ends
5e-7 to 3e-6 apart; leaving one rank out of any single one of the first 200 steps of 264 ends 7e-5 to 2e-2 apart."""


@dataclass(frozen=True)
class Setup:
    """What ran. batch: images per step, all ranks together; gradient_bytes: what each step all-reduces."""

    torch: str
    ranks: int
    cores: int
    epochs: int
    steps: int
    batch: int
    training_images: int
    test_images: int
    weights: int
    gradient_bytes: int


@dataclass(frozen=True)
class Side:
    """One backend's training. name: as the process group itself reports it; accuracy: on the test images, 0 to 1."""

    name: str
    accuracy: float
    figures: Figures


@dataclass(frozen=True)
class Agreement:
    """Largest absolute difference between final weights; same_on_all_ranks: they are equal bit for bit on all ranks."""

    to_reference: float
    to_one_process: float
    same_on_all_ranks: bool


@dataclass(frozen=True)
class Result:
    """One run of the demo: the backend under test, the reference beside it, and their agreement.

    without_ms: what a step takes where the ranks don't communicate.
    """

    setup: Setup
    without_ms: Figure
    tested: Side
    reference: Side
    agreement: Agreement

    def faults(self) -> list[str]:
        """What is wrong, one clause each; empty if the demo passed."""
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
            faults.append("the ranks don't hold the same weights")
        return faults

    def ratio(self, name: str) -> float:
        """The figure `name`, tested over reference; of medians, where it has one."""
        tested, reference = (getattr(side.figures, name) for side in (self.tested, self.reference))
        if isinstance(tested, Figure):
            tested, reference = tested.median, reference.median
        return tested / reference if reference else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Everything, with the ratios and the verdict, as JSON values."""
        names = [field.name for field in fields(Figures) if field.name != "buckets"]
        return {
            **asdict(self),
            "ratio": {name: self.ratio(name) for name in names},
            "limits": {"accuracy": ACCURACY_FLOOR, "weight_difference": WEIGHT_TOLERANCE},
            "passed": not self.faults(),
            "faults": self.faults(),
        }
