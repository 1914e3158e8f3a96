"""Parse the texts of environment variables.

Every parser raises ValueError for a wrong text. Its message ends the sentence that begins with variable and value:
"should be 0 or 1".
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass

from paceline.formats.numbers import in_full
from paceline.settings.names import ALGORITHMS, AUTO, CODECS, NONE

POLICIES = ("board", "graph", "cycle", "global_sleep", "nonblocking")
"""The names of the coordination policies; see `paceline.coordinate.options.Options`."""
TEN_DAYS = 864000.0
"""Seconds; the longest wait that can be configured."""
MOST_THREADS = 1 << 16
"""Threads of one process, more than any machine has CPUs."""


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """The address of metrics: each rank serves at port `low` plus its local rank, or the next free one up to `high`."""

    host: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ElasticSeat:
    """The address at which the driver of an elastic job listens, and this process's number among its workers."""

    host: str
    port: int
    worker: int


def secret(text: str) -> bytes:
    """Return a secret of 16 to 1024 bytes."""
    if 16 <= len(text.encode()) <= 1024:
        return text.encode()
    raise ValueError(
        "should have 16 to 1024 characters; python3 -c 'import secrets; print(secrets.token_hex())' makes one"
    )


def machine(text: str) -> str:
    """Return a name of at most 128 printable characters."""
    if len(text) <= 128 and text.isprintable():
        return text
    raise ValueError("should be a name of at most 128 printable characters")


def interface(text: str) -> str:
    """Return a comma list of names, ^names, addresses and networks; `rendezvous.interfaces` finds the interface."""
    items = text.split(",")
    if len(text) <= 1024 and all(re.fullmatch(r"\s*\^?[A-Za-z0-9_.:*?@/-]+\s*", item) for item in items):
        return text
    raise ValueError(
        "should be a comma list of interface names, ^names to leave out, addresses, networks: eth*,10.0.0.0/8"
    )


def ports(text: str) -> tuple[int, int]:
    """Return the first and the last TCP port of a text such as "40000-40050"."""
    match = re.fullmatch(r"([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?", text)
    if match:
        low, high = int(match.group(1)), int(match.group(2) or match.group(1))
        if 1 <= low <= high <= 65535:
            return low, high
    raise ValueError("should be a port range within 1-65535, such as 40000-40050")


def metrics_address(text: str, allowed: tuple[int, int] | None) -> MetricsAddress:
    """Return the address of a text such as "0.0.0.0:9400-9407". allowed: the ports of PACELINE_PORTS, if it is set."""
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
    """Return what the launcher of an elastic job writes as "10.0.0.1:40000/3"."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})/([0-9]{1,9})", text)
    if match and 1 <= int(match[3]) <= 65535:
        return ElasticSeat(match[1] or match[2], int(match[3]), int(match[4]))
    raise ValueError("should be the launcher's: address, port and number of a worker, as in 10.0.0.1:40000/3")


def token(text: str) -> str:
    """Return a token of 16 to 1024 characters that an HTTP header can carry."""
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
    raise ValueError(f"should be {meaning} from {in_full(lowest)} to {in_full(highest)}")


def timeout(text: str) -> float:
    """Return seconds from 0.001 to ten days."""
    return _number(text, 0.001, TEN_DAYS, "a number of seconds")


def spin_us(text: str) -> float:
    """Return microseconds from 0 to a second."""
    return _number(text, 0.0, 1e6, "a number of microseconds")


def stall_seconds(text: str) -> float:
    """Return seconds from 0, which means never, to ten days."""
    return _number(text, 0.0, TEN_DAYS, "a number of seconds")


def or_never(text: str) -> float | None:
    """Return seconds up to ten days, or None for 0."""
    return _number(text, 0.0, TEN_DAYS, "a number of seconds") or None


def never_if_set(text: str) -> float | None:
    """Return 0 seconds, which `stall_seconds` takes for never, if the switch is on; None if it is off."""
    return 0.0 if switch(text) else None


def switch(text: str) -> bool:
    """Return False for 0 and True for any other number."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text) != 0
    raise ValueError("should be 0 or 1")


def milliseconds(text: str) -> float:
    """Return, in seconds, a number of milliseconds up to 60000."""
    return _number(text, 0.0, 60000.0, "a number of milliseconds") / 1000.0


def byte_count(text: str) -> int:
    """Return a number of bytes up to 1 TiB."""
    return _count(text, 1 << 40, "a number of bytes")


def capacity(text: str) -> int:
    """Return a number of names up to 2^24."""
    return _count(text, 1 << 24, "a number of names")


def threads(text: str) -> int:
    """Return a number of threads from 1 to 65536."""
    if re.fullmatch(r"[0-9]{1,5}", text) and 1 <= int(text) <= MOST_THREADS:
        return int(text)
    raise ValueError(f"should be a number of threads from 1 to {MOST_THREADS}")


def _count(text: str, highest: int, meaning: str) -> int:
    if re.fullmatch(r"[0-9]{1,16}", text) and int(text) <= highest:
        return int(text)
    raise ValueError(f"should be {meaning} from 0 to {highest}")


def horovod_log_level(text: str) -> int:
    """Return a level of the module logging for one of Horovod's names."""
    level = {"TRACE": "DEBUG", "FATAL": "ERROR"}.get(text.upper(), text)
    try:
        return log_level(level)
    except ValueError:
        raise ValueError("should be one of trace, debug, info, warning, error, fatal") from None


def log_level(text: str) -> int:
    """Return the level's number in the module logging."""
    names = ("DEBUG", "INFO", "WARNING", "ERROR")
    if text.upper() in names:
        return int(getattr(logging, text.upper()))
    raise ValueError(f"should be one of {', '.join(names)}")


def algorithm(text: str) -> str:
    """Return the name of an all-reduce algorithm between machines."""
    if text in ALGORITHMS:
        return text
    raise ValueError(f"should be one of {', '.join(ALGORITHMS)}")


def codec(text: str) -> str:
    """Return the name of a codec for messages between machines, `none` for `off`; `auto` lets the cost model choose."""
    if text == "off":
        return NONE
    if text == AUTO or text in CODECS:
        return text
    raise ValueError(f"should be off, {AUTO} or one of {', '.join(CODECS)}")


def policy(text: str) -> str:
    """Return the name of a coordination policy."""
    if text in POLICIES:
        return text
    raise ValueError(f"should be one of {', '.join(POLICIES)}")


def cuda(text: str) -> str:
    """Return who serves memory of CUDA devices."""
    if text in ("nccl", "engine", "auto"):
        return text
    raise ValueError("should be nccl, engine or auto")
