"""The style of Paceline's pictures: colours that print and that colour-blind people tell apart, a font, text widths."""

from __future__ import annotations

import re

FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
PAPER, BOX = "#ffffff", "#f1f5f9"
INK, FAINT, LINE = "#0f172a", "#64748b", "#94a3b8"
ACCENT, WARNING = "#1d4ed8", "#c2410c"
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Okabe and Ito's colours for things of one kind side by side, which colour-blind people tell apart too."""


def ink_on(colour: str) -> str:
    """Return INK or PAPER, whichever has more contrast to `colour`, "#rrggbb"."""
    return max((INK, PAPER), key=lambda one: contrast(one, colour))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, "#rrggbb": 1 to 21.

    The Web Content Accessibility Guidelines (WCAG 2.2, "contrast ratio") define it.
    """
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return about how wide the text is at this font size, in the same unit. The estimate is rather too wide."""
    return len(text) * size * (0.76 if bold else 0.62)


def shortened(text: str, longest: int) -> str:
    """Return the text, or its beginning and end where it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def shortened_host(name: str, longest: int) -> str:
    """Return the name, shortened where it has more than `longest` characters.

    A host's domain goes first, since the name before it distinguishes machines.
    """
    return name if len(name) <= longest else shortened(re.sub(r"\b([A-Za-z][\w-]*)\.[\w.-]+", r"\1", name), longest)
