"""Speeds and times as people write them: "500 Mbit/s", "1.2 GiB/s", "pcie4", "50 us"."""

from __future__ import annotations

import re
from fractions import Fraction

from paceline.formats.numbers import plain

SLOWEST, FASTEST = 0.125, 1.25e17
"""Bytes per second that a link can have: 1 bit/s to 10^18 bit/s."""
LONGEST = 60.0
"""Seconds that one crossing of a link can take."""

_NUMBER = r"([0-9]{1,40}(?:\.[0-9]{0,40})?)(e[+-]?[0-9]{1,3})?"
_SPEED = re.compile(_NUMBER + r"\s*(?:([kmgt])(i?))?(bits?|b)(?:/s|/sec|ps)", re.IGNORECASE)
_SHORT = re.compile(_NUMBER + r"\s*([kKmMgGtT])(?:[bB]it|bE|b|)")
"""A speed as tc, ethtool and vendors write it: 500mbit, 100G, 25GbE; always bits per second."""
_PCIE = re.compile(r"pci-?e\s*(?:gen\s*)?([1-6])(?:\.0)?(?:\s*x([1248]|16))?", re.IGNORECASE)
_LANE = (0.25e9, 0.5e9, 8e9 / 8 * 128 / 130, 16e9 / 8 * 128 / 130, 32e9 / 8 * 128 / 130, 64e9 / 8 * 242 / 256)
"""Bytes per second each way of a lane of PCI Express 1 to 6, after its encoding, by PCI-SIG's specifications."""
_LANES = 16
_NVLINK = re.compile(r"nv-?link\s*([1-5])(?:\.0)?", re.IGNORECASE)
_NVLINKS = (80e9, 150e9, 300e9, 450e9, 900e9)
"""Bytes per second each way of all NVLinks of a P100, V100, A100, H100 and B200, by NVIDIA's papers on them."""
_TIME = re.compile(_NUMBER + r"\s*(ns|us|µs|μs|ms|s)(?:ec)?")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SECONDS = {unit: Fraction(1, 1000**power) for power, unit in enumerate(("s", "ms", "us", "ns"))}
_SECONDS |= {"µs": _SECONDS["us"], "μs": _SECONDS["us"]}  # the micro sign and the Greek letter
_SPEED_UNITS = {f"{prefix}bit/s": Fraction(1000**power, 8) for power, prefix in enumerate(("", "k", "M", "G", "T"))}


def parse_speed(text: str) -> float:
    """Return the bytes per second of a text such as "500 Mbit/s"; "b" and "bit" are bits, "B" is bytes.

    `nvlink4` and `pcie4`, `pcie4x8` stand for what these links of a device carry each way.

    Raises ValueError, which says what would be right.
    """
    if (named := _named(text.strip())) is not None:
        return named
    if found := _SHORT.fullmatch(text.strip()):
        unit = Fraction(1000 ** _POWERS[found[3].lower()], 8)
    elif found := _SPEED.fullmatch(text.strip()):
        base = 1024 if found[4] else 1000
        unit = Fraction(base ** _POWERS[(found[3] or "").lower()], 1 if found[5] == "B" else 8)
    else:
        raise ValueError(f"{text!r} is not a speed; write it like 500 Mbit/s, 10 Gbit/s, 120 MB/s, 1.5 GiB/s or pcie4")
    speed = _value(found) * unit
    if not SLOWEST <= speed <= FASTEST:
        raise ValueError(f"{text!r} is no speed that a link has; it is between 1 bit/s and 1000000 Tbit/s")
    return float(speed)


def _named(text: str) -> float | None:
    if found := _PCIE.fullmatch(text):
        return _LANE[int(found[1]) - 1] * int(found[2] or _LANES)
    found = _NVLINK.fullmatch(text)
    return _NVLINKS[int(found[1]) - 1] if found else None


def parse_time(text: str, longest: float = LONGEST) -> float:
    """Return the seconds of a text such as "50 us", at most `longest`. Raises ValueError, which says what is right."""
    if text.strip() == "0":
        return 0.0
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a time; write it like 50 us, 1.5 ms or 0 s")
    seconds = _value(found) * _SECONDS[found[3]]
    if seconds > longest:
        raise ValueError(f"{text!r} is more than {longest:g} s")
    return float(seconds)


def show_speed(speed: float) -> str:
    """Return bytes per second as a text in bits, rounded for reading: "500 Mbit/s"."""
    return _shown(Fraction(speed), _SPEED_UNITS)


def show_time(seconds: float) -> str:
    """Return seconds as a text, rounded for reading: "50 us"."""
    return _shown(Fraction(seconds), {unit: _SECONDS[unit] for unit in ("ns", "us", "ms", "s")})


def write_speed(speed: float) -> str:
    """Return a text that `parse_speed` reads back as exactly these bytes per second."""
    for digits in (6, 15):
        if parse_speed(text := _written(Fraction(speed), _SPEED_UNITS, digits)) == speed:
            return text
    return f"{speed!r} B/s"


def write_time(seconds: float) -> str:
    """Return a text that `parse_time` reads back as exactly these seconds."""
    for digits in (6, 15):
        text = " ".join(_rounded(Fraction(seconds), {unit: _SECONDS[unit] for unit in ("us", "ms", "s")}, digits))
        if parse_time(text) == seconds:
            return text
    return f"{seconds!r} s"


def _value(found: re.Match[str]) -> Fraction:
    return Fraction(found[1] + (found[2] or ""))


def _shown(value: Fraction, units: dict[str, Fraction]) -> str:
    return _written(value, units, 3)


def _written(value: Fraction, units: dict[str, Fraction], digits: int) -> str:
    number, name = _rounded(value, units, digits)
    return f"{plain(number)} {name}"


def _rounded(value: Fraction, units: dict[str, Fraction], digits: int) -> tuple[str, str]:
    """Return the value in the largest of the units that leaves at least 1 before the point; the units ascend."""
    for name in reversed(units):
        number = f"{float(value / units[name]):.{digits}g}"
        if float(number) >= 1:
            break
    return number, name
