"""`hvd.elastic`: training that continues from its last commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from paceline.horovod.basics import init, shutdown
from paceline.horovod.elastic import ObjectState, State, run_fn
from paceline.horovod.torch.elastic.sampler import ElasticSampler
from paceline.horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]

T = TypeVar("T")


def run(func: Callable[..., T]) -> Callable[..., T]:
    """Decorate `func(state, ...)` so that all ranks start with rank 0's state, and continue from their last commit
    after a failed collective.

    `paceline.horovod.elastic` says what this requires.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
