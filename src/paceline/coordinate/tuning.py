"""Tunes a coordinator while its job runs: rank 0 times the steps and decides for all ranks.

A step ends where a name comes again. The other ranks do nothing for it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TextIO

from paceline import _engine
from paceline.calibration import coordinate as fitted
from paceline.coordinate.choices import BOARD, GRAPH, policies, sizes
from paceline.coordinate.tuner import Tuner
from paceline.formats.files import open_file
from paceline.order import Collective, order, parallel, scheme

log = logging.getLogger("paceline")

_MOST_NAMES = 1 << 16
"""Names among which one must have come again; otherwise tuning is given up."""
_Step = dict[str, tuple[int, int, tuple[int, int], tuple[int, int]]]
"""The elements, dtype, reduction with codec, and bundle of each name, in the order in which the names came."""


class Tuning:
    """Is told of the all-reduces of rank 0 until nothing is left to tune.

    policy: whether to tune the policy; the native coordinator's policy is then `switching`, else `board`. sizes_too:
    whether to tune `fusion_bytes` afterwards. path: a file for a table of all turns, None for no table. frozen: called
    when nothing is left to tune.
    """

    def __init__(
        self,
        native: _engine.Coordinator,
        fusion_bytes: int,
        policy: bool,
        sizes_too: bool,
        path: str | None,
        frozen: Callable[[], None],
    ) -> None:
        self._native = native
        self._frozen = frozen
        self._fusion_bytes = fusion_bytes
        self._sizes_too = sizes_too
        self._policy: Tuner[str] | None = policies() if policy else None
        self._size: Tuner[int] | None = None if policy else sizes(fusion_bytes)
        self._table = _table(path)
        self._step: _Step = {}  # the step that is under way
        self._ordered = False
        self._since = 0.0
        self._out_of_use = 0
        self._ended = False
        self._lock = Lock()

    def note(self, name: str, count: int, dtype: int, op: tuple[int, int], bundle: tuple[int, int]) -> None:
        """Note that an all-reduce of `count` elements comes; `op` is its reduction with its codec."""
        with self._lock:
            if self._ended:
                return
            if name in self._step:
                self._end_step()
            self._step[name] = (count, dtype, op, bundle)
            if len(self._step) > _MOST_NAMES:
                log.warning("autotune: nothing is tuned, because none of %s names came again", _MOST_NAMES)
                self._end()

    def close(self) -> None:
        """Tune nothing any more."""
        with self._lock:
            self._end()

    def _end_step(self) -> None:
        now = time.perf_counter()
        took = now - self._since if self._since else 0.0
        step, self._step, self._since = self._step, {}, now
        if took:
            with suppress(_engine.CommunicationError):  # the request itself will say why
                if self._policy is not None:
                    self._try_policy(self._policy, took, step)
                elif self._size is not None:
                    self._try_size(self._size, took, len(step))

    def _try_policy(self, tuner: Tuner[str], seconds: float, step: _Step) -> None:
        in_use, refused = self._native.in_use()
        told = bool(tuner.outcome)
        if in_use == tuner.choice:
            self._out_of_use = 0
            self._add(tuner, seconds, len(step))
        else:
            self._out_of_use += 1
            if refused:
                tuner.stay("a rank had joined")
            elif self._out_of_use > fitted.UNLIKE_STEPS:
                tuner.stay("the ranks did not come to change it")
        if tuner.outcome and not told:
            log.warning("autotune: %s", tuner.outcome)
        if in_use != tuner.choice:
            self._native.use(tuner.choice, self._order(step) if tuner.choice == GRAPH else ())
        elif tuner.outcome:
            self._policy = None
            if tuner.choice == BOARD and self._sizes_too:
                self._size = sizes(self._fusion_bytes)
            else:
                self._end()

    def _order(self, step: _Step) -> Sequence[Sequence[str]]:
        """The buffers of policy `graph`, in the order of this step, without the requests that go in bundles.

        Empty from the second call on, because the ranks keep the order that they were told first.
        """
        if self._ordered:
            return ()
        self._ordered = True
        graph = parallel(
            Collective(name, count * _engine.SIZES[dtype], str(dtype), str(kind))
            for name, (count, dtype, kind, bundle) in step.items()
            if not bundle[1]
        )
        return scheme(graph, order(graph), min(self._fusion_bytes, fitted.GRAPH_BYTES)).buffers

    def _try_size(self, tuner: Tuner[int], seconds: float, requests: int) -> None:
        size = tuner.choice
        self._add(tuner, seconds, requests)
        if tuner.choice != size:
            self._native.tune(tuner.choice)
        if tuner.outcome:
            log.warning("autotune: %s", tuner.outcome)
            self._end()

    def _add(self, tuner: Tuner[str] | Tuner[int], seconds: float, requests: int) -> None:
        turns = len(tuner.turns)
        tuner.add(seconds, requests)
        if self._table is None:
            return
        for turn in tuner.turns[turns:]:
            self._table.write(f"{turn.round},{turn.choice},{turn.seconds:.9f}\n")

    def _end(self) -> None:
        self._ended = True
        self._step.clear()
        if self._table is not None:
            self._table.close()
            self._table = None
        self._frozen()


def _table(path: str | None) -> TextIO | None:
    if path is None:
        return None
    try:
        table = os.fdopen(open_file(Path(path)), "w", buffering=1)  # until it is frozen
    except OSError as error:
        log.warning("autotune: what is tried is not written to %s: %s", path, error.strerror)
        return None
    table.write("round,choice,step_seconds\n")
    return table
