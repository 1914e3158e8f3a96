"""Compression of gradients for the transfer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from paceline.horovod import ops


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


class CodecCompressor(Compressor):
    """Hands in tensors as they are; float32 is encoded by `codec` where it crosses from one machine to another."""

    codec: ClassVar[str]

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """Return the tensor itself."""
        return tensor


class Int8Compressor(CodecCompressor):
    """Sends whole multiples, from -127 to 127, of a scale for each 128 elements."""

    codec = "int8"


class Int4Compressor(CodecCompressor):
    """Sends whole multiples, from -7 to 7, of a scale for each 128 elements."""

    codec = "int4"


class ThreeInOneCompressor(CodecCompressor):
    """Sends three elements in 32 bits, each with 6 significant bits."""

    codec = "three_in_one"


def codec_of(compression: type[Compressor]) -> str | None:
    """Return the codec by which the engine encodes what this compression hands in; None if it does not."""
    return compression.codec if isinstance(compression, type) and issubclass(compression, CodecCompressor) else None


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
