"""Reports the bytes that crossed the links, for people and for programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.table import Table

from paceline.formats.numbers import in_full
from paceline.lab.lab import Lab, Traffic


def table(lab: Lab, traffic: list[Traffic]) -> Table:
    """Return a table with a row for each uplink: its rates, and the MB that crossed it."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("uplink of", "rate up", "rate down", "MB up", "MB down"):
        result.add_column(title, justify="left" if title == "uplink of" else "right", no_wrap=True)
    for uplink, crossed in zip(lab.uplinks, traffic, strict=True):
        rates = (_speed(uplink.link.up), _speed(uplink.link.down))
        result.add_row(uplink.name, *rates, f"{crossed.up / 1e6:.3f}", f"{crossed.down / 1e6:.3f}")
    return result


def records(lab: Lab, traffic: list[Traffic]) -> list[dict[str, Any]]:
    """Return the same content with bytes and bytes/s; a rate that is not limited is None."""
    return [
        {**asdict(crossed), "rate_up": _finite(uplink.link.up), "rate_down": _finite(uplink.link.down)}
        for uplink, crossed in zip(lab.uplinks, traffic, strict=True)
    ]


def _speed(rate: float) -> str:
    if math.isinf(rate):
        return "no limit"
    return f"{in_full(rate * 8 / 1e6)} Mbit/s"


def _finite(rate: float) -> float | None:
    return rate if math.isfinite(rate) else None
