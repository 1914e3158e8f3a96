"""Compression of gradients for the transfer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Compressor:
    """Compresses a tensor before it is sent and restores it afterwards. Users may write subclasses."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """Return the tensor to send, and the context that `decompress` needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """Return the restored tensor. ctx: the context that `compress` returned."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors unchanged."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """Return the tensor itself."""
        return tensor


class FP16Compressor(Compressor):
    """Sends floating-point tensors as float16."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """Return the tensor as float16 if its dtype is floating-point, else unchanged, and its dtype."""
        return (tensor.to(torch.float16) if tensor.dtype.is_floating_point else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """Return the tensor in its original dtype, which is `ctx`."""
        return tensor.to(ctx)


class Compression:
    """The values of the parameter `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
