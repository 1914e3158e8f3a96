"""Horovod's `horovod.torch.functions`, which scripts import too: broadcasting state and exchanging objects."""

from __future__ import annotations

from paceline.horovod.torch.objects import allgather_object, broadcast_object
from paceline.horovod.torch.parameters import broadcast_optimizer_state, broadcast_parameters

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]
