"""A check that parameters lie in memory of their own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from torch import Tensor

from paceline.torch.bucket import described


def require_own_memory(parameters: Iterable[Tensor]) -> None:
    """Raise ValueError if parameters share memory, which their buckets would part."""
    spans = []
    for one in parameters:
        if one.numel():
            length = 1 + sum((size - 1) * stride for size, stride in zip(one.shape, one.stride(), strict=True))
            spans.append((one.data_ptr(), one.data_ptr() + length * one.element_size(), one))
    spans.sort(key=lambda span: span[:2])
    for (_, end, one), (begin, _, other) in pairwise(spans):
        if begin < end:
            raise ValueError(
                f"parameters of {described(one)} and {described(other)} share memory, and lie apart in buckets: make "
                "them one parameter, or copy one of them"
            )
