"""One line of the doctor's report, and the input of a check."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.settings.settings import Settings


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    topic: what was examined. value: what was found. reason: how that is known, or what follows from it. advice: what
    would be better and how to get it; "" if nothing would.
    """

    topic: str
    value: str
    reason: str
    advice: str = ""


@dataclass(frozen=True)
class Environment:
    """The environment variables, and the settings that Paceline reads from them."""

    environ: Mapping[str, str]
    settings: Settings
