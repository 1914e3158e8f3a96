"""The transport between gradients and links: what of a link it reaches, and the copies on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from paceline.formats.numbers import in_full
from paceline.formats.sizes import parse_bytes
from paceline.simulate.job import Transfer


@dataclass(frozen=True, slots=True)
class Transport:
    """The transport between gradients and links.

    reach: (bytes of an all-reduce, fraction of the links between machines that it reaches), ascending in bytes; empty
    for all of them. share: the fraction of these links that other jobs leave. host: bytes per second each way between
    the device that has a rank's gradients and its machine's memory, by which they are copied before and after each
    all-reduce; infinite where the network reads them where they are.
    """

    reach: tuple[tuple[float, float], ...] = ()
    share: float = 1.0
    host: float = math.inf

    def fraction(self, nbytes: float) -> float:
        """Return the fraction of the links' speed at which an all-reduce of so many bytes goes."""
        if not self.reach:
            return self.share
        sizes, fractions = zip(*self.reach, strict=True)
        return self.share * float(np.interp(math.log(nbytes), np.log(sizes), fractions))

    def copying(self, nbytes: float) -> float:
        """Return the seconds of the copies of so many bytes, from a device and back."""
        return 2 * nbytes / self.host

    def copied(self, network: Transfer) -> Transfer:
        """Return what all-reduces take with the copies from devices and back."""
        times = tuple((nbytes, seconds + self.copying(nbytes)) for nbytes, seconds in network.all_reduce)
        return replace(network, all_reduce=times)


def reached(text: str) -> tuple[tuple[float, float], ...]:
    """Return what a user says that transfers reach: a fraction, or a file with lines such as "4M 0.6".

    Raises ValueError, and OSError for a file that cannot be read.
    """
    try:
        return ((1.0, checked("--link-efficiency", float(text))),)
    except ValueError as error:
        if not Path(text).exists():
            raise ValueError(f"--link-efficiency is {text!r:.60}; write a fraction such as 0.6, or a file") from error
    lines = Path(text).read_text(encoding="utf-8", errors="replace").splitlines()
    found = [_point(text, number, line) for number, line in enumerate(lines, 1) if line.partition("#")[0].strip()]
    if not found or [size for size, _ in found] != sorted({size for size, _ in found}):
        raise ValueError(f"{text} must have lines such as 4M 0.6, with rising sizes of all-reduces")
    return tuple(found)


def checked(option: str, fraction: float) -> float:
    """Return a fraction that is above 0 and at most 1. Raises ValueError for others."""
    if not 0 < fraction <= 1:
        raise ValueError(f"{option} is {in_full(fraction)}; it must be above 0 and at most 1")
    return fraction


def _point(file: str, number: int, line: str) -> tuple[float, float]:
    words: Sequence[str] = line.partition("#")[0].replace(",", " ").split()
    try:
        size, fraction = words
        return float(parse_bytes(size)), checked("the fraction", float(fraction))
    except ValueError as error:
        raise ValueError(f"{file}:{number}: {line!r:.60} is no line such as 4M 0.6; {error}") from None
