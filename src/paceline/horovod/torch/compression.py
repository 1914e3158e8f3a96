"""Compression of gradients for the transfer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from paceline.horovod import ops
from paceline.horovod.compression import (
    Compressor as Compressor,
)
from paceline.horovod.compression import (
    Int4Compressor,
    Int8Compressor,
    NoneCompressor,
    ThreeInOneCompressor,
)


class _CastCompressor(Compressor):
    """Sends floating-point tensors as another dtype, `sent_as`."""

    sent_as: ClassVar[torch.dtype]

    @classmethod
    def compress(cls, tensor: Tensor) -> tuple[Tensor, Any]:
        """Return the tensor as `sent_as` if its dtype is floating-point, else unchanged, and its dtype."""
        return (tensor.to(cls.sent_as) if tensor.dtype.is_floating_point else tensor), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Tensor, ctx: Any) -> Tensor:
        """Return the tensor in its original dtype, which is `ctx`."""
        return tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16; magnitudes above 65504 become infinite."""

    sent_as = torch.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16, which has the range of float32 and 8 significant bits."""

    sent_as = torch.bfloat16


def encodes(codec: str | None, dtype: torch.dtype, op: int) -> bool:
    """Return whether tensors of this dtype are encoded in this reduction. Others go as they are."""
    return codec is not None and dtype == torch.float32 and op in (ops.Average, ops.Sum)


class Compression:
    """The values of the parameter `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
    int8 = Int8Compressor
    int4 = Int4Compressor
    three_in_one = ThreeInOneCompressor
