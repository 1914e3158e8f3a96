"""The encoding residuals of each gradient on this rank, which are added to it the next time (error feedback)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from paceline.torch import cuda


class Residuals:
    """A flat float32 tensor for each bucket, in which every parameter has its part.

    Parameters may move from one bucket to another, as DDP's do after the first step, and take along what they have.
    Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014, section 3.

    parameters: by name; all of dtype float32 that are exchanged.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._names: dict[int, str] = {}
        self._sizes: dict[str, int] = {}
        self._parts: dict[str, Tensor] = {}
        self._withheld: dict[str, Tensor] = {}
        self._buckets: dict[int, tuple[tuple[str, ...], Tensor]] = {}
        self.extend(parameters)

    def extend(self, parameters: Mapping[str, Tensor]) -> None:
        """More parameters, of other names."""
        self._names |= {id(parameter): name for name, parameter in parameters.items()}
        self._sizes |= {name: parameter.numel() for name, parameter in parameters.items()}

    def of(
        self,
        bucket: int,
        numel: int,
        parameters: Sequence[Tensor],
        begins: Sequence[int],
        absent: Collection[int] = (),
        like: Tensor | None = None,
    ) -> Tensor:
        """The residual, of shape (numel,), of the bucket with this number.

        parameters: those in the bucket. begins: the element of the bucket at which the gradient of each begins. absent:
        the places among them of those that have no gradient on this rank. What was lost of theirs waits for their next
        one, because a sum of gradients that no rank has is thrown away. like: a tensor where the residual should lie;
        None: in the CPU's memory.
        """
        flat = self._flat(bucket, numel, parameters, begins, like)
        for place, parameter in enumerate(parameters):
            name = self._names[id(parameter)]
            if place in absent:
                kept = self._withheld.get(name)
                self._withheld[name] = self._parts[name].clone() if kept is None else kept.add_(self._parts[name])
                self._parts[name].zero_()
            elif name in self._withheld:
                self._parts[name].add_(self._withheld.pop(name))
        return flat

    def _flat(
        self, bucket: int, numel: int, parameters: Sequence[Tensor], begins: Sequence[int], like: Tensor | None
    ) -> Tensor:
        names = tuple(self._names[id(parameter)] for parameter in parameters)
        before, flat = self._buckets.get(bucket, ((), torch.empty(0)))
        if before == names and flat.numel() == numel:
            return flat
        flat = torch.zeros(numel) if like is None or like.is_cpu else cuda.empty((numel,), like).zero_()
        for name, begin in zip(names, begins, strict=True):
            part = flat[begin : begin + self._sizes[name]]
            if name in self._parts:
                part.copy_(self._parts[name])
            self._parts[name] = part
        self._buckets[bucket] = names, flat
        return flat

    def reset(self) -> None:
        """Let nothing be lost yet, as after steps that were undone."""
        self._withheld.clear()
        for part in self._parts.values():
            part.zero_()

    def forget(self, parameters: Iterable[Tensor]) -> None:
        """Let nothing be lost in the last exchange of these, which did not count."""
        for parameter in parameters:
            if (part := self._parts.get(self._names[id(parameter)])) is not None:
                part.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of what is kept, flat, by the parameter's name. It belongs to this rank alone."""
        return {name: part + self._withheld.get(name, 0.0) for name, part in self._parts.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `state_dict` returned, and nothing else. Raises ValueError if it is of other parameters."""
        for name, part in state.items():
            if self._sizes.get(name) != part.numel():
                expected = f"{self._sizes[name]} elements" if name in self._sizes else "no such parameter"
                raise ValueError(f"the state has {part.numel()} elements for {name}, the model has {expected}")
        self.reset()
        for name, part in state.items():
            if name in self._parts:
                self._parts[name].copy_(part.reshape(-1))
            else:
                self._parts[name] = part.detach().reshape(-1).to(torch.float32, copy=True)
