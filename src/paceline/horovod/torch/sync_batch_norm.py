"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.horovod import job, ops
from paceline.horovod.process_sets import global_process_set
from paceline.horovod.torch.allgather import allgather_async
from paceline.horovod.torch.allreduce_requests import start as start_allreduce
from paceline.horovod.torch.waiting import synchronize


class SyncBatchNorm(_BatchNorm):
    """Like `torch.nn.BatchNorm1d` to `BatchNorm3d`, with the mean and variance of all ranks' batches.

    The batch is the first dimension, which may differ between ranks; the channels are the second. It works on CPU and
    GPU. Evaluation involves no other rank.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise `input`, of shape [batch, channels, ...], and update the running statistics. Collective in
        training.

        Raises ValueError for an input with fewer than two dimensions, and if no rank has a sample.
        """
        self._check_input_dim(input)
        training = self.training or not self.track_running_stats
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if not training or job.current().size == 1:
            mean, variance = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
            momentum = self._momentum()
            return F.batch_norm(input, mean, variance, self.weight, self.bias, training, momentum, self.eps)
        output, mean, variance, count = _SyncBatchNorm.apply(input, self.weight, self.bias, self.eps)
        if self.training and self.track_running_stats:
            self._track(mean, variance * (count / max(1.0, count - 1.0)))
        result: Tensor = output
        return result

    def _momentum(self) -> float:
        if self.momentum is not None:
            return float(self.momentum)
        return 1.0 / float(self.num_batches_tracked) if self.num_batches_tracked is not None else 0.0

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        share = self._momentum()
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            if running is not None:
                running.lerp_(now.to(running.dtype), share)


class _SyncBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
        kind = torch.float64 if input.dtype == torch.float64 else torch.float32
        channels = input.shape[1]
        mine = input.transpose(0, 1).reshape(channels, -1).to(kind)
        count = mine.shape[1]
        mean = mine.mean(1) if count else mine.new_zeros(channels)
        deviation = (mine - mean[:, None]).square().sum(1)
        row = torch.cat([mine.new_tensor([count]), mean, deviation])[None]
        rows = synchronize(allgather_async(row, "sync_batch_norm.statistics"))
        counts, means, deviations = rows[:, :1], rows[:, 1 : 1 + channels], rows[:, 1 + channels :]
        total = counts.sum()
        if not total:
            raise ValueError("SyncBatchNorm needs at least one sample on one of the ranks")
        # T. Chan, G. Golub, R. LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979
        mean = (counts * means).sum(0) / total
        variance = (deviations.sum(0) + (counts * (means - mean).square()).sum(0)) / total
        scale = torch.rsqrt(variance + eps)
        along = [1, channels] + [1] * (input.dim() - 2)
        normal = (input.to(kind) - mean.view(along)) * scale.view(along)
        ctx.save_for_backward(normal, weight, scale)
        ctx.total = float(total)
        output = normal if weight is None else normal * weight.to(kind).view(along)
        output = output if bias is None else output + bias.to(kind).view(along)
        ctx.mark_non_differentiable(mean, variance)
        return output.to(input.dtype), mean, variance, ctx.total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        normal, weight, scale = ctx.saved_tensors
        gradient = gradients[0].to(normal.dtype)
        channels, others = normal.shape[1], [0, *range(2, normal.dim())]
        along = [1, channels] + [1] * (normal.dim() - 2)
        sums = torch.stack([gradient.sum(others), (gradient * normal).sum(others)])
        of_bias, of_weight = sums.unbind()
        of_input = None
        if ctx.needs_input_grad[0]:
            name = "sync_batch_norm.gradients"
            handle = start_allreduce([sums], False, ops.Sum, name, 1.0, 1.0, global_process_set)
            shift, slope = (synchronize(handle) / ctx.total).unbind()
            centred = gradient - shift.view(along) - normal * slope.view(along)
            factor = scale if weight is None else scale * weight.to(scale.dtype)
            of_input = (centred * factor.view(along)).to(gradients[0].dtype)
        if weight is None:
            return of_input, None, None, None
        return of_input, of_weight.to(weight.dtype), of_bias.to(weight.dtype), None
