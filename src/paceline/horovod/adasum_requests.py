"""Adasum of one tensor as requests to a coordinator: small tensors are gathered, large ones take an exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from paceline._engine import SIZES
from paceline.calibration.coordinate import ADASUM_GATHERED_BYTES
from paceline.horovod.adasum import Exchange, adasum, exchange, gather, widened
from paceline.horovod.adasum_exchange import Course

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request, Span


def start(coordinator: Coordinator, name: str, data: Span, numbers: Callable[[], NDArray[Any]]) -> Request | Course:
    """Start to combine the ranks' tensors; every rank calls it with the same name.

    data: this rank's tensor, which stays untouched until the request is over. numbers: returns the same as an array, of
    a dtype that NumPy has and any shape.
    """
    shape = (1, data.count)
    everyone = data.count * SIZES[data.dtype] * coordinator.size
    if coordinator.size == 1 or everyone <= ADASUM_GATHERED_BYTES:
        return coordinator.all_gather(name, data, shape=shape)
    vector = widened(numbers().reshape(-1))
    # The first request checks that the ranks agree, and shows which ranks have joined and take no further part.
    first = coordinator.all_gather(name, data._replace(count=1), shape=shape)

    def begin(request: Request) -> Exchange:
        everybody = all(request.counts)
        return exchange(coordinator.rank, coordinator.size, vector) if everybody else gather(vector)

    return Course(coordinator, name, vector.dtype, first, begin)


def result(request: Request | Course, rows: Callable[[Request], NDArray[Any]]) -> NDArray[Any]:
    """Return the combined tensor, flat, of a request that is done and has elements.

    rows: returns what a request gathered, a row for each rank.
    """
    if isinstance(request, Course):
        assert request.outcome is not None
        return request.outcome
    # All ranks combine the same rows in the same way. A rank that has joined sent none, which has the effect of zeros.
    return adasum(list(rows(request)))
