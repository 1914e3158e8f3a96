"""The encoding of what goes from machine to machine: gradients of replicas, and what crosses cuts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paceline.group import codecs as engine
from paceline.plan.codecs import CODECS, ENCODED_FROM, Codec
from paceline.torch.partitioned.errors import HybridError

FOR_CUTS = ("bf16", "fp16", "int8")
"""Those that need no error feedback, as each activation is another one, and whose size does not depend on the data."""


@dataclass(frozen=True)
class Codecs:
    """The names of the codecs of gradients and of cuts; None for as it is."""

    gradients: str | None = None
    cuts: str | None = None

    def check(self) -> None:
        """Raise HybridError if there are none of these names."""
        for what, name, known in (("gradients", self.gradients, tuple(CODECS)), ("cuts", self.cuts, FOR_CUTS)):
            if name is not None and name not in known:
                raise HybridError(f"the codecs of {what} are {', '.join(known)}: found {name!r:.40}")

    @property
    def of_gradients(self) -> Codec | None:
        """As the cost model knows it."""
        return None if self.gradients is None else CODECS[self.gradients]

    @property
    def of_cuts(self) -> Codec | None:
        """As the cost model knows it."""
        return None if self.cuts is None else CODECS[self.cuts]


AS_IT_IS = Codecs()


class CutEncoding:
    """Encodes tensors of float32 that are sent to another machine, as both sides know by their dtype and size.

    codec: one of `FOR_CUTS`.
    """

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def takes(self, tensor: Tensor) -> bool:
        """Return whether this tensor is encoded: small messages are not, as those of gradients."""
        return tensor.dtype == torch.float32 and tensor.nbytes >= ENCODED_FROM

    def encoded(self, tensor: Tensor) -> Tensor:
        """The bytes to send."""
        return torch.from_numpy(engine.encode(tensor.detach().contiguous().numpy(), self._codec))

    def room(self, tensor: Tensor) -> Tensor:
        """Memory for the bytes of which this tensor is decoded."""
        return torch.empty(engine.encoded_bound(self._codec, tensor.numel()), dtype=torch.uint8)

    def decode(self, received: Tensor, tensor: Tensor) -> None:
        """Put what was received into the tensor. Raises CorruptEncoding if that can't be."""
        elements: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = engine.decode(
            received.numpy(), self._codec, tensor.numel()
        )
        tensor.detach().copy_(torch.from_numpy(elements).view(tensor.shape))
