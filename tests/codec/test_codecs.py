"""Every codec against a slow reference, and what it does with bytes that were truncated or changed."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from codec_reference import decoded
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from paceline import _engine
from paceline.group import codecs
from paceline.group.codecs import CODECS, CorruptEncoding

SIZES = st.integers(0, 400) | st.sampled_from([4095, 4096, 4097, 4096 + 49])
"""Elements: short blocks, and those around the length of a block."""
ANY = st.floats(width=32, allow_nan=True, allow_infinity=True)
SMALL = st.floats(-2, 2, width=32)
NEAR_THE_RANGES = st.sampled_from(
    [
        sign * edge * near
        for edge in (2.0**-31, 2.0**-16, 2.0**-15, 1.0, 2.0)
        for near in (1, 33 / 32, 0.99, 1.01)
        for sign in (1, -1)
    ]
).map(np.float32)


def values(elements: st.SearchStrategy[float] = ANY) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.float32, SIZES, elements=elements, fill=st.floats(-1, 1, width=32))


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all numbers are the same bits, and NaN stand at the same places."""
    numbers = ~np.isnan(one)
    return bool(
        np.array_equal(numbers, ~np.isnan(other))
        and np.array_equal(one[numbers].view(np.uint32), other[numbers].view(np.uint32))
    )


def equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all numbers are equal, so that 0 is -0, and NaN stand at the same places."""
    return bool(np.array_equal(one, other, equal_nan=True))


def normal(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.02, count).astype(np.float32)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=50)
@given(values=values() | values(SMALL) | values(NEAR_THE_RANGES))
@example(values=np.array([np.finfo(np.float32).max] * 3, np.float32))
@example(values=np.array([1e-45, -1e-45, 0.0, -0.0], np.float32))
def test_decoded_values_are_those_of_the_reference(codec, values):
    encoded = codecs.encode(values, codec)
    assert encoded.size <= codecs.encoded_bound(codec, values.size)
    compare = equal if codec in ("int8", "int4") else same
    assert compare(codecs.decode(encoded, codec, values.size), decoded(codec, values))


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=40)
@given(values=values(), added=st.floats(-4, 4, width=32))
@example(values=np.array([2.0, -0.0, -0.0], np.float32), added=-0.0)
def test_adding_is_decoding_and_then_adding(codec, values, added):
    encoded = codecs.encode(values, codec)
    total = np.full(values.size, added, np.float32)
    with np.errstate(all="ignore"):
        expected = total + codecs.decode(encoded, codec, values.size)
    codecs.decode_and_add(encoded, codec, total)
    assert same(total, expected)


@pytest.mark.parametrize("codec", CODECS)
@given(steps=st.integers(1, 12), seed=st.integers(0, 1000))
def test_error_feedback_loses_nothing_in_the_end(codec, steps, seed):
    """What was decoded in all steps and the last residual are what was encoded, but for roundings of the sums."""
    residual = np.zeros(300, np.float32)
    given_, arrived = np.zeros(300), np.zeros(300)
    for step in range(steps):
        gradient = normal(300, seed + step)
        arrived += codecs.decode(codecs.encode(gradient, codec, residual=residual), codec, 300)
        given_ += gradient
    np.testing.assert_allclose(arrived + residual, given_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@settings(max_examples=50)
@given(data=st.data())
def test_lossless_gives_the_same_bits(dtype, data):
    bits = {"float32": np.uint32, "bfloat16": np.uint16}[dtype]
    whole = data.draw(arrays.arrays(bits, SIZES))
    stored = whole.view(np.float32) if dtype == "float32" else whole
    encoded = codecs.encode(stored, "lossless", dtype=dtype)
    back = codecs.decode(encoded, "lossless", stored.size, dtype=dtype)
    assert np.array_equal(back.view(bits), whole)


def test_lossless_makes_normal_weights_smaller():
    weights = normal(1 << 16)
    halves = (weights.view(np.uint32) >> 16).astype(np.uint16)
    assert codecs.encode(halves, "lossless", dtype="bfloat16").nbytes < 0.7 * halves.nbytes
    assert codecs.encode(weights, "lossless").nbytes < 0.85 * weights.nbytes


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=40)
@given(values=values(SMALL), data=st.data())
def test_truncated_bytes_are_a_named_error(codec, values, data):
    encoded = codecs.encode(values, codec)
    length = data.draw(st.integers(0, encoded.size))
    encoded = np.append(encoded, np.uint8(0)) if length == encoded.size else encoded[:length]
    with pytest.raises(CorruptEncoding, match=f"are not {values.size} elements encoded by {codec}") as caught:
        codecs.decode(encoded, codec, values.size)
    assert (caught.value.codec, caught.value.nbytes, caught.value.elements) == (codec, encoded.size, values.size)


@pytest.mark.parametrize("codec", CODECS)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 5000), flips=st.integers(1, 8))
def test_changed_bytes_are_an_error_or_as_many_elements(codec, seed, count, flips):
    random = np.random.default_rng(seed)
    encoded = codecs.encode(normal(count, seed), codec)
    for place in random.integers(0, encoded.size, flips):
        encoded[place] ^= np.uint8(1 << random.integers(8))
    with suppress(CorruptEncoding):
        assert codecs.decode(encoded, codec, count).size == count


@pytest.mark.parametrize("codec", CODECS)
def test_parts_of_whole_blocks_are_encoded_apart(codec):
    values = normal(3 * codecs.BLOCK + 77)
    cuts = range(0, values.size, codecs.BLOCK)
    parts = [codecs.encode(values[first : first + codecs.BLOCK], codec) for first in cuts]
    assert np.array_equal(np.concatenate(parts), codecs.encode(values, codec))


def test_what_cannot_be_encoded_is_said_in_words():
    with pytest.raises(ValueError, match="there is no codec 'zip'; the codecs are none, bf16, "):
        codecs.encode(normal(3), "zip")
    with pytest.raises(ValueError, match="float32 is held as float32; the array is float64"):
        codecs.encode(np.zeros(3), "bf16")
    with pytest.raises(ValueError, match="the codec bf16 does not take float64"):
        codecs.encode(np.zeros(3), "bf16", dtype="float64")
    with pytest.raises(ValueError, match="the codec int8 does not take bfloat16"):
        codecs.encode(np.zeros(3, np.uint16), "int8", dtype="bfloat16")
    with pytest.raises(ValueError, match="contiguous float32 with 3 elements; it has 2 elements of float64"):
        codecs.encode(normal(3), "int8", residual=np.zeros(2))


@pytest.mark.parametrize("codec", CODECS)
def test_which_codec_takes_what(codec):
    assert codecs.takes(codec, "float32")
    assert codecs.takes(codec, "bfloat16") == (codec in ("none", "lossless"))
    others = set(_engine.DTYPES) - {"float32", "bfloat16"}
    assert not any(codecs.takes(codec, dtype) for dtype in others)
