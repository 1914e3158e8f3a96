"""This process's runtime: made when needed, and let go once another one has taken its place."""

from __future__ import annotations

import gc
import weakref

from paceline.process.current import running, runtime


def test_a_runtime_that_was_replaced_is_let_go() -> None:
    first = runtime()
    assert runtime() is first is running()
    seen = weakref.ref(first)
    first.close()
    assert running() is None
    del first
    second = runtime()
    gc.collect()
    assert seen() is None
    assert runtime() is second
    second.close()
