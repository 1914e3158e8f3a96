"""Requests that one op has handed in, and whose result another op takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from paceline.horovod.handles import Pending
from paceline.horovod.tensorflow.kernels.call import Call


class Started:
    """What an op started before it went on. It holds the op's tensors while the engine works on them.

    call: the op that goes on. fail: ends the call that takes the result, with an error.
    """

    def __init__(self, call: Call, pending: Pending[None], fail: Callable[[Call, BaseException], None]) -> None:
        self._call, self._pending, self._fail = call, pending, fail
        self._lock = threading.Lock()
        self._taker: Call | None = None
        self._over = False
        self._error: BaseException | None = None

    def over(self) -> None:
        """Let go of the tensors, as all requests are over, and end the call that waits for them if there is one."""
        try:
            self._pending.result()
        except BaseException as error:
            self._error = error
        self._call.release()
        with self._lock:
            self._over = True
            taker = self._taker
        if taker is not None:
            self._end(taker)

    def take(self, call: Call) -> None:
        """End this call with the result, now or when it is there. Its first inputs are the tensors."""
        with self._lock:
            self._taker = call
            over = self._over
        if over:
            self._end(call)

    def _end(self, taker: Call) -> None:
        if self._error is None:
            taker.succeed_with_inputs()
        else:
            self._fail(taker, self._error)
