"""Starting the metrics of a rank, if that is possible here."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paceline.observe.ask import ask
from paceline.observe.figures import Figures
from paceline.observe.trace import live
from paceline.settings.parsers import MetricsAddress
from paceline.settings.settings import Settings

if TYPE_CHECKING:
    from paceline.monitor.metrics.server import Server

log = logging.getLogger("paceline")


def _job() -> Sequence[Figures]:
    """The figures of all ranks of this process's job that answer."""
    try:
        return ask(live.choose(live.listening(), os.getpid())).figures
    except ValueError:  # the job ends
        return ()


def serve(
    address: MetricsAddress, settings: Settings, me: str, figures: Callable[[], Figures], of_all: bool
) -> Server | None:
    """A server of this rank's figures; None, and a warning, where it cannot be.

    me: what to call this rank. of_all: whether it also tells which rank of the job comes last.
    """
    try:
        from paceline.monitor.metrics.collector import RankCollector
        from paceline.monitor.metrics.server import Server
    except ImportError:
        log.warning("no metrics: they need the package prometheus_client (pip install 'paceline[metrics]')")
        return None
    first = address.low + settings.local_rank
    try:
        collector = RankCollector(figures, _job if of_all else None)
        server = Server(address, first, settings.metrics_token or "", collector)
    except OSError as error:
        log.warning("no metrics at %s, ports %d to %d: %s", address.host, first, address.high, error)
        return None
    log.info("%s serves metrics at http://%s:%d/metrics", me, address.host, server.port)
    return server
