"""What the ranks' programs of this folder share."""

from __future__ import annotations

import os
from typing import Any


def joined(machines: str, policy: str, timeout: float = 60.0, **options: Any) -> tuple[Any, Any]:
    """This rank's group and a coordinator. `machines`: how ranks are spread over machines, as "0011"."""
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    os.environ |= {"PACELINE_TIMEOUT": str(timeout), "PACELINE_START_TIMEOUT": "60"}
    import paceline
    from paceline.coordinate import Options, coordinator

    group = paceline.init()
    return group, coordinator(group, Options(policy=policy, **options))


def span(array: Any) -> Any:
    from paceline.coordinate import Span

    return Span.of(array)
