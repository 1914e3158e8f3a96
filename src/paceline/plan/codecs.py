"""Codecs for messages between machines: how many bytes they leave, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.calibration import plan as fitted


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of `engine/codec`.

    ratio: bytes of float32 for each byte between machines; of the codecs whose size depends on the data, what usual
    ones give. seconds: in which one core encodes a byte of float32 and decodes it.
    """

    name: str
    ratio: float
    seconds: float


def _usual(name: str, ratio: float) -> Codec:
    """With the speed of a usual machine."""
    return Codec(name, ratio, 1 / fitted.ENCODE_RATE[name] + 1 / fitted.DECODE_RATE[name])


CODECS = {
    codec.name: codec
    for codec in (
        _usual("bf16", 2.0),
        _usual("fp16", 2.0),
        _usual("three_in_one", 2.9),
        _usual("int8", 3.9),
        _usual("int4", 7.5),
        _usual("lossless", 1.2),
    )
}
"""All of them, by name."""
ENCODED_FROM = 64 * 1024
"""Bytes of a buffer from which the engine encodes messages; the same as kEncodedFrom of the engine, which see."""
