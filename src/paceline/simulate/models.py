"""Networks whose gradients are known beforehand: their sizes, and when backward has made each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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
    """The multiplications of a step, forward and backward, for one example."""
    gradients: tuple[Gradient, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all gradients, as float32."""
        return sum(gradient.nbytes for gradient in self.gradients)


def model(name: str) -> Model:
    """Return the network of this name, in which case, hyphens and underscores do not matter: resnet50, VGG-16, gpt2.

    Raises ValueError, which names the networks that there are.
    """
    found = _models().get(_plain(name))
    if found is None:
        raise ValueError(f"there is no network {name!r:.80}; choose one of {', '.join(names())}")
    return found


def names() -> list[str]:
    """Return the names of all networks."""
    return [each.name for each in _models().values()]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


@cache
def _models() -> dict[str, Model]:
    document = json.loads((files("paceline.simulate") / "models.json").read_text(encoding="utf-8"))
    return {
        _plain(name): Model(name, each["multiplications"], tuple(Gradient(*gradient) for gradient in each["gradients"]))
        for name, each in document.items()
    }
