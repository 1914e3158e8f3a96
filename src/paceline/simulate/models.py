"""Networks whose gradients are known beforehand: their sizes, and when backward has made each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from paceline.simulate import transformers
from paceline.simulate.transformers import FORWARD

MOST_GRADIENTS = 100_000
"""Gradients of a model at most."""
_LEFT_OUT = str.maketrans("", "", "-_/. ")
"""Characters that do not matter in a network's name."""
BYTES = 4
"""Bytes of an element, float32."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """A tensor that every rank submits once in every step."""

    name: str
    elements: int
    ready: float
    """The fraction of the step's computation after which it is submitted, from 0 to 1."""

    @property
    def nbytes(self) -> int:
        """Bytes, as float32."""
        return BYTES * self.elements


@dataclass(frozen=True, slots=True)
class Model:
    """A network: its gradients in the order in which backward makes them."""

    name: str
    multiplications: float
    """The multiplications of a step, forward and backward, for one example; a transformer's for a token."""
    gradients: tuple[Gradient, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all gradients, as float32."""
        return sum(gradient.nbytes for gradient in self.gradients)


def model(name: str) -> Model:
    """Return the network of this name, in which case, hyphens and the like do not matter: resnet50, VGG-16, vitb16.

    Raises ValueError, which names the networks that there are.
    """
    found = _models().get(_plain(name))
    if found is None:
        raise ValueError(f"there is no network {name!r:.80}; choose one of {', '.join(names())}")
    return found


def alike(nbytes: int, count: int) -> tuple[Gradient, ...]:
    """Return `count` gradients of `nbytes` bytes together, equally large, which backward makes at equal distances.

    Raises ValueError where there is less than a float32 for each.
    """
    if not 1 <= count <= MOST_GRADIENTS or nbytes < count * BYTES:
        raise ValueError(f"{nbytes} bytes do not make {count} tensors; write at most {MOST_GRADIENTS}, of 4 bytes each")
    ends = [nbytes * (number + 1) // count // BYTES for number in range(count)]
    return tuple(
        Gradient(f"gradient {number}", end - begin, FORWARD + (1 - FORWARD) * (number + 1) / count)
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
    )


def names() -> list[str]:
    """Return the names of all networks."""
    return [each.name for each in _models().values()]


def _plain(name: str) -> str:
    return name.lower().translate(_LEFT_OUT)


@cache
def _models() -> dict[str, Model]:
    document = json.loads((files("paceline.simulate") / "models.json").read_text(encoding="utf-8"))
    known = {name: (each["multiplications"], each["gradients"]) for name, each in document.items()}
    known |= {name: transformers.gradients(parts) for name, parts in transformers.SIZES.items()}
    return {
        _plain(name): Model(name, multiplications, tuple(Gradient(*gradient) for gradient in gradients))
        for name, (multiplications, gradients) in known.items()
    }
