"""Several parameters' gradients as one piece of arena memory, and which of them are there."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.torch.flat import FlatLayout
from paceline.torch.history import History

BUCKET_BYTES = 25 << 20
"""Bytes of gradients in a bucket: the default of torch's DistributedDataParallel."""
CACHE_LINE = 64
"""Bytes."""

P = TypeVar("P", bound=Tensor)


def assign(
    parameters: Iterable[P], bucket_bytes: int, kind: Callable[[P], Hashable] = lambda parameter: parameter.dtype
) -> list[list[P]]:
    """The parameters in buckets of one kind each; a bucket is full once it holds `bucket_bytes`.

    If gradients come in the order of the parameters, buckets get complete in the order of the result.
    """
    growing: dict[Hashable, list[P]] = {}
    found: list[list[P]] = []
    ends: dict[int, int] = {}
    for index, parameter in enumerate(parameters):
        key = kind(parameter)
        if key not in growing:
            growing[key] = []
            found.append(growing[key])
        bucket = growing[key]
        bucket.append(parameter)
        ends[id(bucket)] = index
        if sum(member.nbytes for member in bucket) >= bucket_bytes:
            del growing[key]
    return sorted(found, key=lambda bucket: ends[id(bucket)])


class Bucket(ABC):
    """The gradients of `parameters`, which are of one dtype, in `flat` memory, and how ranks exchange them.

    views: where each gradient lies. They are the bucket's own; `p.grad` is another tensor over the same memory, because
    whoever holds that may give it other memory.
    """

    def __init__(self, parameters: Sequence[Tensor], layout: FlatLayout, flat: Tensor) -> None:
        # A parameter holds its hooks, and those the buckets: only weak references let all of them go.
        self._parameters = [weakref.ref(parameter) for parameter in parameters]
        self.flat = flat
        self.views = layout.views(flat)
        self._lent = layout.views(flat)
        self._missing: set[int] = set()
        self.history: History | None = None
        """The history of the last exchange, for those that want to know."""

    @property
    def parameters(self) -> list[Tensor]:
        """Those that still live."""
        return [parameter for reference in self._parameters if (parameter := reference()) is not None]

    @property
    def complete(self) -> bool:
        """True if every gradient of this pass is there."""
        return not self._missing

    def begin(self) -> None:
        """A new backward pass: no gradient has come yet."""
        self._missing = set(range(len(self.views)))

    def arrived(self, slot: int) -> None:
        """This pass has accumulated the gradient of parameter `slot`, and won't do so again."""
        self._missing.discard(slot)

    def accumulated(self, slot: int, parameter: Tensor) -> None:
        """A pass has added to the gradient of `parameter`, which shall lie here, wherever it was."""
        if self.history is not None:
            self.history.accumulated(slot, parameter)
        self.adopt(slot, parameter)

    def adopt(self, slot: int, parameter: Tensor) -> None:
        """Let the gradient of `parameter` lie here, wherever it was. Raises TypeError if it cannot."""
        gradient, view = parameter.grad, self.views[slot]
        if gradient is None or is_at(gradient, view):
            return
        if gradient.shape != view.shape or gradient.dtype != view.dtype:
            raise TypeError(
                f"a parameter was {described(view)} when its gradients got their bucket and now has a gradient of "
                f"{described(gradient)}: make the bucket anew after such a change"
            )
        move(gradient, view)
        self._lend(slot, parameter)

    def left_out(self) -> Iterator[tuple[int, Tensor | None]]:
        """The parameters whose gradients did not come in this pass; None for one that is gone."""
        for slot in self._missing:
            yield slot, self._parameters[slot]()

    @abstractmethod
    def close(self) -> None:
        """No more gradients come in this pass."""

    def start(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to exchange the gradients with the ranks of `group`. All ranks' buckets start in one order."""
        for slot, reference in enumerate(self._parameters):
            if slot in self._missing or (parameter := reference()) is None:
                continue
            if parameter.grad is None:  # a hook has taken it since it arrived
                self.views[slot].zero_()
            else:
                self.adopt(slot, parameter)
        return self.exchange(group)

    @abstractmethod
    def exchange(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to exchange `flat`, in which all gradients are."""

    def settle(self) -> None:
        """The exchange is over: what any rank has a gradient of has the result as its gradient here."""
        for slot in self.found():
            parameter = self._parameters[slot]()
            if parameter is not None and (parameter.grad is None or not is_at(parameter.grad, self.views[slot])):
                self._lend(slot, parameter)
        if self.history is not None:
            self.history.exchanged(self.found())

    @abstractmethod
    def found(self) -> Iterable[int]:
        """The slots of which some rank had a gradient in this exchange."""

    def _lend(self, slot: int, parameter: Tensor) -> None:
        if not is_at(self._lent[slot], self.views[slot]):
            self._lent[slot] = self.views[slot].data
        parameter.grad = self._lent[slot]


def require_dense(parameter: Tensor, name: Callable[[Tensor], str]) -> None:
    """Raise TypeError if the gradient is sparse. name: says which parameter it is, for the error."""
    if parameter.grad is not None and parameter.grad.layout != torch.strided:
        raise TypeError(
            f"{name(parameter)} has a sparse gradient, and a bucket holds dense gradients only: "
            "make its module without sparse=True, or train it with DistributedDataParallel"
        )


def described(tensor: Tensor) -> str:
    """Its dtype and shape."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def ordered(tensor: Tensor) -> str:
    """Its dtype and shape, and the order of its elements in a bucket where that is not the usual one."""
    strides = torch.empty_like(tensor, device="meta").stride()
    usual = torch.empty(tensor.shape, device="meta").stride()
    return described(tensor) + (f" in memory order {list(strides)}" if strides != usual else "")


def is_at(tensor: Tensor, view: Tensor) -> bool:
    """Return whether both are the same elements of memory in the same order, whatever tensors they are."""
    return (
        tensor.layout == torch.strided
        and tensor.is_set_to(view)
        and tensor.dtype == view.dtype
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def move(tensor: Tensor, view: Tensor) -> None:
    """Copy a tensor's values to where they belong, which may be in its own memory in another order."""
    values = tensor.detach()
    inside = values.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()
    view.copy_(values.clone() if inside else values)
