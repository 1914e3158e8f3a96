"""Elastic state, at the place where `horovod.common` has it."""

from __future__ import annotations

from paceline.horovod.elastic import ObjectState, State, run_fn

__all__ = ["ObjectState", "State", "run_fn"]
