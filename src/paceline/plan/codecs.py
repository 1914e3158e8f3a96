"""Codecs for messages between machines: how many bytes they leave, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.calibration import plan as fitted


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of `engine/codec`.

    ratio: bytes of float32 for each byte between machines; of the codecs whose size depends on the data, what usual
    ones give.
    """

    name: str
    ratio: float

    @property
    def seconds(self) -> float:
        """Seconds in which one core encodes a byte of float32 and decodes it."""
        return 1 / fitted.ENCODE_RATE[self.name] + 1 / fitted.DECODE_RATE[self.name]


CODECS = {
    codec.name: codec
    for codec in (
        Codec("bf16", 2.0),
        Codec("fp16", 2.0),
        Codec("three_in_one", 2.9),
        Codec("int8", 3.9),
        Codec("int4", 7.5),
        Codec("lossless", 1.2),
    )
}
"""All of them, by name. Where a name is asked for, `NONE` stands for no codec."""
NONE = "none"
AUTO = "auto"
"""What stands for the codec that the cost model chooses, where it may choose."""
ENCODED_FROM = 64 * 1024
"""Bytes of a buffer from which the engine encodes messages; the same as kEncodedFrom of the engine, which see."""
