"""Which calls of a group between machines go straight to the engine, and which are watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paceline.adapt.group import LARGE, AdaptiveGroup


class Native:
    """Takes every call for done, and remembers it."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., bool]:
        def call(*_: Any) -> bool:
            self.called.append(name)
            return True

        return call


@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize(
    ("collective", "sizes"), [("all_reduce", (4,)), ("all_gather", (4, 1)), ("reduce_scatter", (1, 4))]
)
def test_only_small_calls_are_not_watched(collective: str, sizes: tuple[int, ...], kind: str) -> None:
    native: Any = Native()
    nobody: Any = None
    group = AdaptiveGroup(nobody, native, nobody, nobody)
    call = getattr(group, f"{collective}_{kind}")
    assert not call(*(np.zeros(size * LARGE // 4, np.uint8) for size in sizes)) and native.called == []
    assert call(*(np.zeros(size, np.uint8) for size in sizes)) and native.called == [f"{collective}_{kind}"]
