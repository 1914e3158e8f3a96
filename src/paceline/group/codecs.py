"""The engine's codecs on NumPy arrays.

An array is encoded in blocks of `BLOCK` elements, each of which decodes alone. See the page on codecs for what each one
does to a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _engine

CODECS: tuple[str, ...] = tuple(_engine.CODECS)
"""The names of all codecs; "none" leaves elements as they are."""
BLOCK: int = _engine.CODEC_BLOCK
"""Elements of a block. The last block of an array may be shorter."""

Array = NDArray[Any]


class CorruptEncoding(ValueError):
    """Bytes that cannot be the encoding of so many elements.

    codec: its name. nbytes: the number of bytes that were to be decoded. elements: the number of elements expected.
    """

    def __init__(self, codec: str, nbytes: int, elements: int) -> None:
        super().__init__(
            f"{nbytes} bytes are not {elements} elements encoded by {codec}: they were truncated or changed"
        )
        self.codec = codec
        self.nbytes = nbytes
        self.elements = elements


def takes(codec: str, dtype: str) -> bool:
    """Return whether the codec takes elements of this dtype.

    All codecs take "float32"; "none" and "lossless" take "bfloat16" too. Raises ValueError on an unknown name.
    """
    return _engine.encodes(_number(codec), _dtype(dtype))


def encoded_bound(codec: str, elements: int, dtype: str = "float32") -> int:
    """Return the number of bytes that `elements` take at the most, once encoded."""
    return _engine.encoded_bound(_number(codec), _dtype(dtype), elements)


def encode(array: Array, codec: str, *, dtype: str = "float32", residual: Array | None = None) -> NDArray[np.uint8]:
    """Encode an array of any shape, in C order.

    Args:
        array: float32, or uint16 that holds bfloat16 if `dtype` says so.
        codec: one of `CODECS`.
        dtype: "float32" or "bfloat16".
        residual: float32 of the same size, for error feedback. It is added to the array before that is encoded, and
            afterwards holds what was lost.

    Returns:
        The encoded bytes, as many as there are.

    Raises:
        ValueError: the codec is unknown or does not take the dtype, or the residual does not fit the array.
    """
    source = _as_stored(array, dtype)
    out = np.empty(encoded_bound(codec, source.size, dtype), np.uint8)
    number = _number(codec)
    if residual is None:
        written = _engine.encode(number, _dtype(dtype), source.ctypes.data, source.size, out.ctypes.data)
    else:
        if dtype != "float32":
            raise ValueError(f"error feedback is for float32, not for {dtype}")
        if residual.dtype != np.float32 or residual.size != source.size or not residual.flags.c_contiguous:
            raise ValueError(
                f"the residual must be contiguous float32 with {source.size} elements; it has {residual.size} "
                f"elements of {residual.dtype}"
            )
        written = _engine.encode_with_residual(
            number, source.ctypes.data, residual.ctypes.data, source.size, out.ctypes.data
        )
    return out[:written]


def decode(encoded: NDArray[np.uint8], codec: str, elements: int, *, dtype: str = "float32") -> Array:
    """Decode exactly `elements` from all of `encoded`.

    Returns:
        A flat array: float32, or uint16 that holds bfloat16 if `dtype` says so.

    Raises:
        CorruptEncoding: the bytes cannot be the encoding of so many elements.
        ValueError: the codec is unknown or does not take the dtype.
    """
    number = _number(codec)
    out = np.empty(elements, _STORAGE.get(dtype, np.uint8))
    source = np.ascontiguousarray(encoded, np.uint8)
    if not _engine.decode(number, _dtype(dtype), source.ctypes.data, source.size, out.ctypes.data, elements):
        raise CorruptEncoding(codec, source.size, elements)
    return out


def decode_and_add(encoded: NDArray[np.uint8], codec: str, out: NDArray[np.float32]) -> None:
    """Decode as many elements as `out` has, and add them to it in float32.

    Raises:
        CorruptEncoding: the bytes cannot be the encoding of so many elements. Then `out` holds anything.
        ValueError: the codec is unknown, or `out` is not contiguous float32.
    """
    if out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ValueError(f"the sum must be contiguous float32, not {out.dtype}")
    source = np.ascontiguousarray(encoded, np.uint8)
    if not _engine.decode_and_add(
        _number(codec), _dtype("float32"), source.ctypes.data, source.size, out.ctypes.data, out.size
    ):
        raise CorruptEncoding(codec, source.size, out.size)


_STORAGE = {"float32": np.float32, "bfloat16": np.uint16}


def _number(codec: str) -> int:
    if codec not in CODECS:
        raise ValueError(f"there is no codec {codec!r}; the codecs are {', '.join(CODECS)}")
    return _engine.CODECS[codec]


def _dtype(dtype: str) -> int:
    if dtype not in _engine.DTYPES:
        raise ValueError(f"there is no dtype {dtype!r}")
    return _engine.DTYPES[dtype]


def _as_stored(array: Array, dtype: str) -> Array:
    stored = _STORAGE.get(dtype)
    if stored is not None and array.dtype != stored:
        raise ValueError(f"{dtype} is held as {np.dtype(stored).name}; the array is {array.dtype}")
    return np.ascontiguousarray(array)
