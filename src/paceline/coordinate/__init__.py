"""Coordination: ranks submit named tensors in any order, and all carry them out in one order."""

from paceline.coordinate.coordinator import Coordinator, Request, coordinator
from paceline.coordinate.options import Options
from paceline.coordinate.records import Counters, Record
from paceline.coordinate.span import OnDevice, Span

__all__ = ["Coordinator", "Counters", "OnDevice", "Options", "Record", "Request", "Span", "coordinator"]
