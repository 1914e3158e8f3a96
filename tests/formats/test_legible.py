"""Text in the pictures can be read: it stands on colours that it differs from, and what is long is shortened."""

from __future__ import annotations

import pytest

from paceline.formats.svg_style import ACCENT, BOX, INK, PAPER, SERIES, WARNING, contrast, ink_on, shortened_host


@pytest.mark.parametrize("colour", [*SERIES, ACCENT, BOX, PAPER, INK, WARNING])
def test_text_has_the_contrast_that_wcag_asks_for(colour: str) -> None:
    assert contrast(ink_on(colour), colour) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("node-1.a.b", "node-1.a.b"),
        ("node-1.example.org", "node-1"),
        ("node-1.example.org left", "node-1 left"),
        ("a-very-long-name-0001.example.org", "a-very-…0001"),
        ("192.168.100.101", "192.168….101"),
    ],
)
def test_a_machine_loses_its_domain_first(name: str, short: str) -> None:
    assert shortened_host(name, 12) == short
