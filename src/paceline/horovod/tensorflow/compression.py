"""Compression of gradients for the transfer."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

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
    int8 = Int8Compressor
    int4 = Int4Compressor
    three_in_one = ThreeInOneCompressor
