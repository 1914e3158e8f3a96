"""Horovod's error says what Paceline's own error, its cause, says in fields."""

from __future__ import annotations

import pytest

from paceline.errors import Culprit, RendezvousError
from paceline.horovod.exceptions import HorovodInternalError


def test_the_fields_are_those_of_the_cause() -> None:
    cause = RendezvousError("rank 2 died", Culprit(2, "node1", 77))
    cause.group = (0, 2)
    with pytest.raises(HorovodInternalError) as caught:
        raise HorovodInternalError(str(cause)) from cause
    error = caught.value
    assert (error.rank, error.host, error.pid) == (2, "node1", 77)
    assert (error.operation, error.tensor, error.group) == ("rendezvous", None, (0, 2))


def test_without_a_cause_nothing_is_known() -> None:
    error = HorovodInternalError("by hand")
    assert error.rank is None and error.group is None
    with pytest.raises(AttributeError, match="no attribute 'ranks'"):
        _ = error.ranks  # type: ignore[attr-defined]
