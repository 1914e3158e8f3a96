"""The values with which training begins, which all ranks get from the first one."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from paceline import _engine
from paceline.torch.backend import PacelineProcessGroup
from paceline.torch.tables import DTYPES


def broadcast_values(tensor: Tensor, group: dist.ProcessGroup | None) -> None:
    """Give every rank the values of the group's first one, in place and bit for bit, with any backend.

    On Paceline they go as `lossless` between machines where PACELINE_COMPRESS lets them.
    """
    values = tensor.detach()
    found: object = dist.group.WORLD if group is None else group
    if isinstance(found, PacelineProcessGroup) and values.is_cpu and values.dtype in DTYPES:
        codec, least = found.encoding_of_parameters
        if codec and values.nbytes >= least and _engine.encodes(codec, DTYPES[values.dtype]):
            found.broadcast_encoded(values, 0, codec).wait()
            return
    dist.broadcast(values, group=group, group_src=0)
