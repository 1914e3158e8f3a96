"""Coordination: ranks hand in named tensors in any order, and all carry them out in one order."""

from paceline.coordinate.coordinator import Coordinator, Request, coordinator
from paceline.coordinate.options import Options
from paceline.coordinate.records import Counters, Record
from paceline.coordinate.span import Span

__all__ = ["Coordinator", "Counters", "Options", "Record", "Request", "Span", "coordinator"]
