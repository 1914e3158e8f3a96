"""`paceline bench tune` on throughputs that are made up: what it says of both searches."""

from __future__ import annotations

import pytest

from paceline.cpu.budget import budget
from paceline.tune import tune
from paceline.tune.run import Run
from paceline.tune.setting import Setting
from paceline.tune.trial import Effort
from paceline_bench.tune import measure

RATES = {(2, 1): 10.0, (1, 2): 15.0, (1, 1): 9.0}
"""Steps per second of the processes and threads that are not slow."""


def compared(monkeypatch: pytest.MonkeyPatch, broken: bool = False) -> tuple[measure.Comparison, list[Setting]]:
    tried: list[Setting] = []

    def trial(words: object, setting: Setting, number: int, *_: object) -> Run:
        tried.append(setting)
        rate = RATES.get((setting.processes, setting.threads), 1.0) * (setting.cores == "off")
        return Run(setting, number, 2.0, () if broken else (rate, rate + 0.01), "it broke" if broken else "")

    for room in (measure, tune):
        monkeypatch.setattr(room, "trial", trial)
    one, rows = measure.compare("cnn", {}, budget(range(2), None), Effort(), 3, lambda _: None)
    assert [row.setting for row in rows if row.runs != 3] == []
    assert one.same_share >= one.share > 0
    return one, tried


def test_both_searches_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    one, tried = compared(monkeypatch)
    assert one.settings == 7 and tried.count(Setting(1, 4, batch=16)) == 3, "the exhaustive search tries more"
    assert (one.chosen, one.best, one.loss) == ("2 × 1, batch 16", "2 × 1, batch 16", 0.0)
    assert one.gain == pytest.approx(20 / 15, rel=0.01) and one.low <= one.gain <= one.high
    assert one.several == pytest.approx(20 / 15, rel=0.01)


def test_a_training_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(measure.Failed, match="it broke"):
        compared(monkeypatch, broken=True)
