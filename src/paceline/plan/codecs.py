"""Codecs for messages between machines, and how many bytes they leave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of `engine/codec`.

    ratio: bytes of float32 for each byte between machines; of the codecs whose size depends on the data, what usual
    ones give.
    """

    name: str
    ratio: float


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
