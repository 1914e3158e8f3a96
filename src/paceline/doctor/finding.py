"""One line of the doctor's report, and what a check is given."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.settings.settings import Settings


@dataclass(frozen=True)
class Finding:
    """topic: what was looked at; value: what was found; reason: how that is known, or what follows from it;
    advice: what would be better and how to get it, "" where nothing would."""

    topic: str
    value: str
    reason: str
    advice: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What the environment says, as it is and as Paceline reads it."""

    environ: Mapping[str, str]
    settings: Settings
