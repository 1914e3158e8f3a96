"""Compression of gradients for the transfer."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf


class Compressor:
    """Compresses a tensor before it is sent and restores it afterwards. Users may write subclasses."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and the context that `decompress` needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the restored tensor. ctx: the context that `compress` returned."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors unchanged."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor itself."""
        return tensor


class _CastCompressor(Compressor):
    """Sends floating-point tensors as another dtype, `sent_as`."""

    sent_as: ClassVar[tf.DType]

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Return the tensor as `sent_as` if its dtype is floating-point, else unchanged, and its dtype."""
        return (tf.cast(tensor, cls.sent_as) if tensor.dtype.is_floating else tensor), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """Return the tensor in its original dtype, which is `ctx`."""
        return tf.cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16; magnitudes above 65504 become infinite."""

    sent_as = tf.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16, which has the range of float32 and 8 significant bits."""

    sent_as = tf.bfloat16


class Compression:
    """The values of the parameter `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
