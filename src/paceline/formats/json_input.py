"""JSON that others wrote, with numbers that can be reckoned with."""

from __future__ import annotations

import json
import math


def load_json(text: str | bytes) -> object:
    """Return the value of a JSON text.

    Raises ValueError with one sentence for anything else, and for a number that is infinite, not a number, or a whole
    one of more than 64 bits, none of which Paceline writes.
    """
    try:
        return json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _constant(word: str) -> float:
    raise ValueError(f"{word} is not a finite number")


def _float(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word[:40]} is not a finite number")
    return value


def _whole(word: str) -> int:
    # Python refuses to read numbers of thousands of digits, in other words.
    if len(word) > 20 or not -(1 << 63) <= (value := int(word)) < 1 << 64:
        raise ValueError(f"{word[:40]} has more than 64 bits")
    return value
