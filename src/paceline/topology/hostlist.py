"""Slurm's host lists: "tux[0-3,12],login" stands for tux0, tux1, tux2, tux3, tux12 and login."""

from __future__ import annotations

import re
from itertools import product
from math import prod

_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\]]*)\]|([^\[]+)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand(text: str, most: int) -> list[str]:
    """Return the names of a host list, in order. Raises ValueError if it is malformed or has more than `most` names."""
    names: list[str] = []
    items = _ITEM.findall(text)
    if ",".join(items) != text:
        raise ValueError(f"{text!r:.80} is no list of names; write it like tux[0-3,12] or tux0,tux1")
    for item in items:
        parts = [[literal] if literal else _numbers(inside, most) for inside, literal in _PART.findall(item)]
        if len(names) + prod(map(len, parts)) > most:
            raise ValueError(f"{text!r:.80} names more than {most} hosts")
        names += ["".join(chosen) for chosen in product(*parts)]
    return names


def _numbers(text: str, most: int) -> list[str]:
    found: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise ValueError(f"[{text:.80}] is no list of numbers; write it like [0-3,12]")
        first, last = int(match[1]), int(match[2] or match[1])
        if len(found) + last - first >= most:
            raise ValueError(f"[{text:.80}] names more than {most} hosts")
        found += [f"{number:0{len(match[1])}}" for number in range(first, last + 1)]
    return found
