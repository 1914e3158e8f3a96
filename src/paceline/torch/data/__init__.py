"""Batches for the ranks of a job: read once per machine, cut in shared memory, and there before they are needed.

The host cuts the batch and reads ahead as in Xu et al., "ScaleDNN: Data Movement Aware DNN Training on Multi-GPU",
sections IV-A and IV-B. Here no rank is a master, and the cut is a view.
"""

from __future__ import annotations

from paceline.torch.data.errors import ReadingFailed
from paceline.torch.data.loader import Loader
from paceline.torch.data.on_device import OnDevice
from paceline.torch.data.weighted import Weighted, weighted_hook

__all__ = ["Loader", "OnDevice", "ReadingFailed", "Weighted", "weighted_hook"]
