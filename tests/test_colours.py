"""Text in the pictures stands on colours that it can be read on."""

from __future__ import annotations

import pytest

from paceline.drawing import ACCENT, BOX, INK, PAPER, SERIES, WARNING, contrast, ink_on


@pytest.mark.parametrize("colour", [*SERIES, ACCENT, BOX, PAPER, INK, WARNING])
def test_text_has_the_contrast_that_wcag_asks_for(colour: str) -> None:
    assert contrast(ink_on(colour), colour) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.005)
