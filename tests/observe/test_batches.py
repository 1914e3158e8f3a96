"""What loading costs a rank: counted where it happens, shown as the share that nobody waited for."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from paceline.monitor.top.look import Picture, Row
from paceline.monitor.top.show import render
from paceline.observe import batches
from paceline.observe.batches import BatchTimes, hidden
from paceline.observe.figures import Figures, decode, encode
from paceline.observe.rates import rates
from paceline.observe.report import make
from paceline.report.show import show

SECOND = 10**9
FIGURES = Figures(
    0, 2, "a", 8, 0, 10 * SECOND, steps=4, batches=5, loading_ns=400_000_000, batch_wait_ns=20_000_000, operations=1
)


def test_waits_are_counted_also_while_they_last(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(batches, "monotonic_ns", lambda: 10 + next(now))
    times = BatchTimes()
    assert times.waited_ns == 0
    with times.waiting():
        assert (times.waited_ns, times.waited_ns) == (10, 20)
    times.add(100)
    assert (times.count, times.loading_ns, times.waited_ns) == (1, 100, 30)


def test_hidden_is_the_share_that_nobody_waited_for() -> None:
    assert [hidden(100, 5), hidden(100, 250), hidden(0, 5)] == [0.95, 0.0, None]


def test_rates_are_of_what_happened_between() -> None:
    after = replace(FIGURES, steps=6, batches=7, loading_ns=600_000_000, batch_wait_ns=120_000_000)
    found = rates(decode(encode(after)), decode(encode(FIGURES)))
    assert (found.data_ms, found.hidden) == (50.0, 0.5)
    without = rates(replace(FIGURES, batches=0, loading_ns=0, batch_wait_ns=0))
    assert (without.data_ms, without.hidden) == (None, None)


@pytest.mark.parametrize("loads", [True, False])
def test_report_and_top_show_it_where_there_are_batches(loads: bool) -> None:
    figures = FIGURES if loads else replace(FIGURES, batches=0, loading_ns=0, batch_wait_ns=0)
    out = StringIO()
    console = Console(file=out, width=200)
    show(make([figures], {}), "", console)
    console.print(render(Picture(2, (Row(figures, rates(figures), None),), {})))
    assert (out.getvalue().count("95.0 %"), out.getvalue().count("hidden")) == ((2, 2) if loads else (0, 0))
