"""Parameters and gradients of FSDP2 (`fully_shard`) that are encoded between machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from paceline import _engine
from paceline.group.arguments import encoding
from paceline.torch.backend import paceline_group
from paceline.torch.checks import Reduction, encodable
from paceline.torch.compat import all_gather_single, reduce_scatter_single
from paceline.torch.tables import DTYPES


class FullyShardedCompression:
    """The encoding of a model of `fully_shard` between machines, and its residuals on this rank; see `compress`."""

    def __init__(self, model: FSDPModule, codec: str, parameters: str, error_feedback: bool) -> None:
        gradients, values = encoding(codec), encoding(parameters)
        units = _units(model)
        for members in units.values():
            for parameter in members:
                encodable([parameter], paceline_group(_sharding_group(parameter)).encodes_on)
        self._scatters = {name: _ReduceScatter(gradients, members, error_feedback) for name, members in units.items()}
        modules = dict(_as_module(model).named_modules())
        for name, scatter in self._scatters.items():
            unit = cast(FSDPModule, modules[name])
            # The base classes that torch names are private, and only what is called here is ever used.
            unit.set_custom_all_gather(_AllGather(values))  # type: ignore[arg-type]
            unit.set_custom_reduce_scatter(scatter)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of what encoding has lost of gradients on this rank, flat, by the name of the `fully_shard`ed module.

        Empty without error feedback.
        """
        kept = {name: scatter.residual for name, scatter in self._scatters.items()}
        return {name: residual.clone() for name, residual in kept.items() if residual is not None}

    def reset_residuals(self) -> None:
        """Forget what encoding has lost on this rank, as after steps that were skipped or undone."""
        for scatter in self._scatters.values():
            scatter.residual = None

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `state_dict` returned on this rank of as many.

        Raises ValueError if it is of another model or another number of ranks.
        """
        for name, residual in state.items():
            if name not in self._scatters:
                raise ValueError(
                    f"the state has residuals of {name!r}, which is no module that fully_shard has sharded"
                )
            expected = self._scatters[name].numel()
            if residual.numel() != expected:
                raise ValueError(f"the state has {residual.numel()} elements for {name!r}, the model has {expected}")
        self.reset_residuals()
        for name, residual in state.items():
            self._scatters[name].residual = residual.detach().reshape(-1).to(torch.float32, copy=True)


class _Allocating:
    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _AllGather(_Allocating):
    """torch's AllGather: of the parameters, whose exact values the ranks that own them keep."""

    def __init__(self, codec: int) -> None:
        self._codec = codec

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        if not _encodes(self._codec, input_tensor):
            work: dist.Work | None = all_gather_single(output_tensor, input_tensor, group=group, async_op=async_op)
            return work
        begun = paceline_group(group).all_gather_encoded(output_tensor, input_tensor, self._codec)
        if async_op:
            return begun
        begun.wait()
        return None


class _ReduceScatter(_Allocating):
    """torch's ReduceScatter: of the gradients of one unit, which are all of float32 if there is a residual."""

    def __init__(self, codec: int, parameters: Sequence[DTensor], error_feedback: bool) -> None:
        self._codec = codec
        self._parameters = parameters
        self._error_feedback = error_feedback
        self.residual: Tensor | None = None

    def numel(self) -> int:
        """The elements that torch submits if all parameters that require a gradient have one."""
        return sum(_padded(parameter) for parameter in self._parameters if parameter.requires_grad)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: Reduction,
        async_op: bool = False,
    ) -> dist.Work | None:
        if not _encodes(self._codec, input_tensor):
            work: dist.Work | None = reduce_scatter_single(
                output_tensor, input_tensor, op=op, group=group, async_op=async_op
            )
            return work
        residual = self._residual_of(input_tensor) if self._error_feedback else None
        begun = paceline_group(group).reduce_scatter_encoded(output_tensor, input_tensor, op, self._codec, residual)
        if async_op:
            return begun
        begun.wait()
        return None

    def _residual_of(self, gradients: Tensor) -> Tensor | None:
        """None if some gradients are missing: torch does not say which, and so nobody knows where the others lie."""
        if gradients.dtype != torch.float32 or gradients.numel() != self.numel():
            return None
        if self.residual is None or self.residual.numel() != gradients.numel():
            self.residual = torch.zeros(gradients.numel(), device=gradients.device)
        elif self.residual.device != gradients.device:  # it was loaded
            self.residual = self.residual.to(gradients.device)
        return self.residual


def _encodes(codec: int, tensor: Tensor) -> bool:
    return codec > 0 and tensor.dtype in DTYPES and _engine.encodes(codec, DTYPES[tensor.dtype])


def _as_module(model: FSDPModule) -> nn.Module:
    assert isinstance(model, nn.Module)
    return model


def _units(model: FSDPModule) -> dict[str, list[DTensor]]:
    """Return the units of torch's communication: the parameters of each, by the name of its first module."""
    first: dict[int, str] = {}
    owners: dict[Tensor, str] = {}
    for name, module in _as_module(model).named_modules():  # a module comes before those inside it
        if isinstance(module, FSDPModule):
            unit = first.setdefault(id(module._get_fsdp_state()), name)
            owners.update(dict.fromkeys(_as_module(module).parameters(), unit))
    units: dict[str, list[DTensor]] = {name: [] for name in first.values()}
    for parameter, unit in owners.items():
        if isinstance(parameter, DTensor):
            units[unit].append(parameter)
    return {name: members for name, members in units.items() if members}


def _sharded_by(parameter: DTensor) -> tuple[int, int]:
    """The dimension of the mesh over which the parameter is sharded, and the dimension of the parameter."""
    return next((at, p.dim) for at, p in enumerate(parameter.placements) if isinstance(p, Shard))


def _sharding_group(parameter: DTensor) -> dist.ProcessGroup:
    return parameter.device_mesh.get_group(_sharded_by(parameter)[0])


def _padded(parameter: DTensor) -> int:
    """The elements of a gradient that all ranks get equal shards of: torch adds rows at the end of dimension 0."""
    at, dim = _sharded_by(parameter)
    if dim != 0:
        return parameter.numel()
    ranks = parameter.device_mesh.size(at)
    return -(-parameter.shape[0] // ranks) * ranks * math.prod(parameter.shape[1:])
