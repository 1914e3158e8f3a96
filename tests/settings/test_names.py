"""The names that settings take are those of what they name."""

from __future__ import annotations

from paceline import _engine
from paceline.plan import algorithms, codecs
from paceline.settings import names


def test_the_algorithms() -> None:
    assert tuple(algorithms.ALGORITHMS) == names.ALGORITHMS


def test_the_codecs() -> None:
    assert tuple(codecs.CODECS) == names.CODECS
    assert {names.NONE, *names.CODECS} == {*_engine.CODECS}
