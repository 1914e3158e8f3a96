"""Compression of gradients for the transfer: what is the same for tensors of every framework."""

from __future__ import annotations

from typing import Any, ClassVar


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


class CodecCompressor(NoneCompressor):
    """Hands in tensors as they are; float32 is encoded by `codec` where it crosses from one machine to another."""

    codec: ClassVar[str]


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
    """Return the codec by which the engine encodes what this compression submits; None if it does not."""
    return compression.codec if isinstance(compression, type) and issubclass(compression, CodecCompressor) else None
