"""Transformers whose gradients follow from the sizes that their papers give.

A matrix of a x b takes a · b multiplications for a token forward, and twice that backward; attention's own products are
left out, as is what embeddings take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FORWARD = 1 / 3
"""The part of a step's multiplications that forward takes."""


@dataclass(frozen=True, slots=True)
class Part:
    """Parameters that backward makes the gradients of at once. work: multiplications for a token, forward."""

    name: str
    sizes: tuple[int, ...]
    work: float = 0.0


def linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Part:
    """Return a matrix and perhaps a bias."""
    return Part(name, (inputs * outputs, outputs) if bias else (inputs * outputs,), inputs * outputs)


def bert(width: int, layers: int) -> Iterator[Part]:
    """Yield BERT's parts: Devlin et al., "BERT", NAACL 2019, section 3; its code's 30 522 words, and its pooler."""
    yield Part("embeddings", (30_522 * width, 512 * width, 2 * width, width, width))
    for number in range(layers):
        yield from _encoder(f"layer {number}", width, 4 * width)
    yield linear("pooler", width, width)


def vit(width: int, layers: int, wide: int, patch: int) -> Iterator[Part]:
    """Yield ViT's parts for 224 x 224 pixels and 1000 classes: Dosovitskiy et al., "An image is worth 16x16 words",
    ICLR 2021, table 1."""
    patches = (224 // patch) ** 2
    yield Part("positions", (width, (patches + 1) * width))
    yield linear("patches", 3 * patch * patch, width)
    for number in range(layers):
        yield from _encoder(f"layer {number}", width, wide)
    yield Part("norm", (width, width))
    yield Part("head", (1000 * width, 1000))  # of one token of many


def llama(words: int, width: int, layers: int, wide: int, keys: int) -> Iterator[Part]:
    """Yield Llama's parts. keys: the width of all keys together, narrower where heads share them.

    Touvron et al., "Llama 2", arXiv 2307.09288, and Dubey et al., "The Llama 3 herd of models", arXiv 2407.21783, table
    3, with the feed-forward widths of the published weights.
    """
    yield Part("embeddings", (words * width,))
    for number in range(layers):
        name = f"layer {number}"
        yield Part(f"{name} attention norm", (width,))
        for part, outputs in (("queries", width), ("keys", keys), ("values", keys), ("output", width)):
            yield linear(f"{name} {part}", width, outputs, bias=False)
        yield Part(f"{name} norm", (width,))
        for part in ("gate", "up"):
            yield linear(f"{name} {part}", width, wide, bias=False)
        yield linear(f"{name} down", wide, width, bias=False)
    yield Part("norm", (width,))
    yield linear("words", width, words, bias=False)


def _encoder(name: str, width: int, wide: int) -> Iterator[Part]:
    for part in ("queries", "keys", "values", "output"):
        yield linear(f"{name} {part}", width, width)
    yield Part(f"{name} attention norm", (width, width))
    yield linear(f"{name} wide", width, wide)
    yield linear(f"{name} narrow", wide, width)
    yield Part(f"{name} norm", (width, width))


def gradients(parts: Sequence[Part]) -> tuple[float, list[tuple[str, int, float]]]:
    """Return a step's multiplications for a token, and (name, elements, ready) of the gradients in backward's order."""
    forward = sum(part.work for part in parts)
    done, found = 0.0, []
    for part in reversed(parts):
        done += part.work
        ready = min(1.0, FORWARD + (1 - FORWARD) * done / forward)
        for number, size in reversed(list(enumerate(part.sizes))):
            found.append((f"{part.name} {number}", size, round(ready, 6)))
    return forward / FORWARD, found


SIZES = {
    "BERT-base": tuple(bert(768, 12)),
    "BERT-large": tuple(bert(1024, 24)),
    "ViT-B/16": tuple(vit(768, 12, 3072, 16)),
    "ViT-L/16": tuple(vit(1024, 24, 4096, 16)),
    "ViT-H/14": tuple(vit(1280, 32, 5120, 14)),
    "Llama-2-7B": tuple(llama(32_000, 4096, 32, 11_008, 4096)),
    "Llama-2-13B": tuple(llama(32_000, 5120, 40, 13_824, 5120)),
    "Llama-2-70B": tuple(llama(32_000, 8192, 80, 28_672, 1024)),
    "Llama-3-8B": tuple(llama(128_256, 4096, 32, 14_336, 1024)),
    "Llama-3-70B": tuple(llama(128_256, 8192, 80, 28_672, 1024)),
}
"""The parts of each, in the order of forward."""
