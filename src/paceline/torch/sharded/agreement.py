"""A check that all ranks have the same parameters, which names those that differ, and how."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import zip_longest

import torch.distributed as dist

from paceline.torch.sharded.gather_bytes import gather_bytes

_NOTHING = "nothing"


def require_agreement(descriptions: Sequence[str], name: Callable[[int], str], group: dist.ProcessGroup | None) -> None:
    """Raise a ValueError on every rank of `group` unless all give the same descriptions. A collective.

    descriptions: single lines. name: of what the description with this number is about, for the error.
    """
    text = "\n".join(descriptions).encode()
    if len(set(gather_bytes(hashlib.sha256(text).digest(), group))) == 1:
        return
    rows = [given.decode().split("\n") for given in gather_bytes(text, group)]
    for number, found in enumerate(zip_longest(*rows, fillvalue=_NOTHING)):
        other = next((rank for rank, description in enumerate(found) if description != found[0]), None)
        if other is not None:
            raise ValueError(f"ranks disagree on {name(number)}: {found[0]} on rank 0, {found[other]} on rank {other}")
