"""Sending gradients with fewer bits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Compressor:
    """How a tensor is made smaller before it is sent, and restored afterwards. Subclasses are for users to write."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """What to send, and what `decompress` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Sends floating-point tensors in 16 bits."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return (tensor.to(torch.float16) if tensor.dtype.is_floating_point else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor.to(ctx)


class Compression:
    """What `compression=` may be."""

    none = NoneCompressor
    fp16 = FP16Compressor
