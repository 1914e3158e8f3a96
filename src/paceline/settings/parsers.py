"""What the text of an environment variable means. ValueError ends the sentence that begins with variable and value."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass

POLICIES = ("board", "graph", "cycle", "global_sleep", "nonblocking")
"""Coordination policies, see `paceline.coordinate.options.Options`."""
TEN_DAYS = 864000.0
"""Seconds; longer than anything is waited for."""


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where ranks serve metrics. Each takes the port `low` plus its local rank, or the next free one up to `high`."""

    host: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ElasticSeat:
    """Where the driver of an elastic job listens, and which of its workers this process is."""

    host: str
    port: int
    worker: int


def secret(text: str) -> bytes:
    """16 to 1024 bytes."""
    if 16 <= len(text.encode()) <= 1024:
        return text.encode()
    raise ValueError(
        "should have 16 to 1024 characters; python3 -c 'import secrets; print(secrets.token_hex())' makes one"
    )


def machine(text: str) -> str:
    """A name of at most 128 printable characters."""
    if len(text) <= 128 and text.isprintable():
        return text
    raise ValueError("should be a name of at most 128 printable characters")


def interface(text: str) -> str:
    """A comma list of names, ^names, addresses and networks; which interface it is, `rendezvous.interfaces` finds."""
    items = text.split(",")
    if len(text) <= 1024 and all(re.fullmatch(r"\s*\^?[A-Za-z0-9_.:*?@/-]+\s*", item) for item in items):
        return text
    raise ValueError(
        "should be a comma list of interface names, ^names to leave out, addresses, networks: eth*,10.0.0.0/8"
    )


def ports(text: str) -> tuple[int, int]:
    """First and last TCP port."""
    match = re.fullmatch(r"([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?", text)
    if match:
        low, high = int(match.group(1)), int(match.group(2) or match.group(1))
        if 1 <= low <= high <= 65535:
            return low, high
    raise ValueError("should be a port range within 1-65535, such as 40000-40050")


def metrics_address(text: str, allowed: tuple[int, int] | None) -> MetricsAddress:
    """`allowed`: what PACELINE_PORTS says."""
    match = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):)?([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if match:
        host = (match[1] or "127.0.0.1").strip("[]")
        low = int(match[2])
        high = int(match[3]) if match[3] else min(65535, allowed[1] if allowed else 65535)
        if 1 <= low <= high <= 65535:
            if allowed is not None and not allowed[0] <= low <= high <= allowed[1]:
                raise ValueError(f"should be within PACELINE_PORTS, {allowed[0]}-{allowed[1]}")
            return MetricsAddress(host, low, high)
    raise ValueError(
        "should be a port or a range of ports, with an address before it if not 127.0.0.1: 0.0.0.0:9400-9407"
    )


def elastic_seat(text: str) -> ElasticSeat:
    """As the launcher of an elastic job writes it."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})/([0-9]{1,9})", text)
    if match and 1 <= int(match[3]) <= 65535:
        return ElasticSeat(match[1] or match[2], int(match[3]), int(match[4]))
    raise ValueError("should be the launcher's: address, port and number of a worker, as in 10.0.0.1:40000/3")


def token(text: str) -> str:
    """What may stand in an HTTP header."""
    if 16 <= len(text) <= 1024 and text.isascii() and text.isprintable() and " " not in text:
        return text
    raise ValueError(
        "should have 16 to 1024 ASCII characters without spaces; "
        "python3 -c 'import secrets; print(secrets.token_hex())' makes one"
    )


def _number(text: str, lowest: float, highest: float, meaning: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if lowest <= value <= highest:
        return value
    raise ValueError(f"should be {meaning} from {lowest:g} to {highest:g}")


def timeout(text: str) -> float:
    """Seconds, up to ten days."""
    return _number(text, 0.001, TEN_DAYS, "a number of seconds")


def spin_us(text: str) -> float:
    """Microseconds, up to a second."""
    return _number(text, 0.0, 1e6, "a number of microseconds")


def stall_seconds(text: str) -> float:
    """Seconds, 0 for never."""
    return _number(text, 0.0, TEN_DAYS, "a number of seconds")


def or_never(text: str) -> float | None:
    """Seconds; None for 0."""
    return _number(text, 0.0, TEN_DAYS, "a number of seconds") or None


def never_if_set(text: str) -> float | None:
    """0 seconds, as `stall_seconds` has it, for a switch that is on; None for one that is off."""
    return 0.0 if switch(text) else None


def switch(text: str) -> bool:
    """0 is off, any other number on."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text) != 0
    raise ValueError("should be 0 or 1")


def milliseconds(text: str) -> float:
    """In seconds."""
    return _number(text, 0.0, 60000.0, "a number of milliseconds") / 1000.0


def byte_count(text: str) -> int:
    """Up to 1 TiB."""
    return _count(text, 1 << 40, "a number of bytes")


def capacity(text: str) -> int:
    """A number of names."""
    return _count(text, 1 << 24, "a number of names")


def _count(text: str, highest: int, meaning: str) -> int:
    if re.fullmatch(r"[0-9]{1,16}", text) and int(text) <= highest:
        return int(text)
    raise ValueError(f"should be {meaning} from 0 to {highest}")


def horovod_log_level(text: str) -> int:
    """As `log_level`, in Horovod's words."""
    level = {"TRACE": "DEBUG", "FATAL": "ERROR"}.get(text.upper(), text)
    try:
        return log_level(level)
    except ValueError:
        raise ValueError("should be one of trace, debug, info, warning, error, fatal") from None


def log_level(text: str) -> int:
    """As the module logging numbers it."""
    names = ("DEBUG", "INFO", "WARNING", "ERROR")
    if text.upper() in names:
        return int(getattr(logging, text.upper()))
    raise ValueError(f"should be one of {', '.join(names)}")


def algorithm(text: str) -> str:
    """One that can be asked for between machines."""
    from paceline.plan.algorithms import ALGORITHMS  # what nobody asks for need not be loaded

    if text in ALGORITHMS:
        return text
    raise ValueError(f"should be one of {', '.join(ALGORITHMS)}")


def policy(text: str) -> str:
    """One of the coordination policies."""
    if text in POLICIES:
        return text
    raise ValueError(f"should be one of {', '.join(POLICIES)}")
