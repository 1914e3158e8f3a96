"""Asks the ranks of a job on other machines, through a rank on this one."""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode
from collections.abc import Callable
from typing import Any, TypeVar

from paceline.observe.trace.asking import Silence, question
from paceline.observe.trace.listener import Name

FIGURES = "figures"
"""The question that ranks on other machines answer with their figures."""
REPORT = "report"
"""The same for what a report holds of a rank."""
LONGEST_ANSWER = 1 << 20
"""Bytes of the longest answer between machines, which is compressed."""

_PATIENCE = 2.0
"""Seconds that the rank on this machine may take to answer."""
_LOOK = 0.05
"""Seconds from one look for answers to the next."""
_LONGEST_LIST = 1 << 28
"""Bytes of the longest list of answers that is read."""

T = TypeVar("T")


def ask(
    through: Name, decode: Callable[[bytes], T], seconds: float, max_bytes: int
) -> tuple[dict[int, T], dict[int, str]]:
    """Return the figures of the ranks on other machines, by rank, and for each that gave none the reason.

    through: the rank on this machine that asks them. decode: converts an answer of at most `max_bytes` bytes; it raises
    ValueError for an invalid one. seconds: the time that they have. Both are empty if the rank on this machine does not
    answer.
    """
    deadline = time.monotonic() + seconds
    number = question(through, "far", int, _PATIENCE, 20)
    if number is None or isinstance(number, Silence):
        return {}, {}
    while True:
        answers = question(through, "far answers", _by_rank, _PATIENCE, _LONGEST_LIST)
        if answers is None or isinstance(answers, Silence):
            return {}, {}
        if all(answered >= number for _, answered, _ in answers.values()) or time.monotonic() > deadline:
            break
        time.sleep(_LOOK)
    found: dict[int, T] = {}
    silent: dict[int, str] = {}
    for rank, (who, answered, content) in answers.items():
        if answered < number:
            silent[rank] = f"{who} did not answer within {seconds:g} s: it is stopped, or its program lets nothing run"
            continue
        try:
            found[rank] = decode(unpacked(content, max_bytes))
        except ValueError as error:
            silent[rank] = f"{who} sent something that is {error}"
    return found, silent


def _by_rank(data: bytes) -> dict[int, tuple[str, int, bytes]]:
    content: Any = json.loads(data)
    try:
        return {int(rank): (str(who), int(number), b64decode(text)) for rank, (who, number, text) in content.items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"not a list of answers: {error}") from None


def unpacked(content: bytes, max_bytes: int) -> bytes:
    """Return an answer between machines as it was before it was compressed. Raises ValueError, "not …"."""
    if not content:
        raise ValueError(f"not shown, as it is longer than {LONGEST_ANSWER} bytes")
    packed = zlib.decompressobj()
    try:
        data = packed.decompress(content, max_bytes)
    except zlib.error as error:
        raise ValueError(f"not compressed: {error}") from None
    if packed.unconsumed_tail:
        raise ValueError(f"longer than {max_bytes} bytes")
    return data
