"""Bytes that all ranks get from the first one, or the error that it met in making them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
import torch.distributed as dist

from paceline.torch.partitioned.errors import HybridError

_GOOD, _REFUSED, _BAD = b"+", b"-", b"!"


def from_first_rank(make: Callable[[], bytes], others: Callable[[], object]) -> bytes:
    """Return what `make` returns on rank 0, while the other ranks do `others`, whatever comes of that.

    Every other rank raises HybridError if rank 0 raises.
    """
    message, error = b"", None
    if dist.get_rank() == 0:
        try:
            message = _GOOD + make()
        except Exception as found:
            error = found
            refused = isinstance(found, HybridError)
            message = _REFUSED + str(found).encode() if refused else _BAD + f"{type(found).__name__}: {found}".encode()
    else:
        with suppress(Exception):
            others()
    length = torch.tensor([len(message)])
    dist.broadcast(length, 0)
    data = torch.frombuffer(bytearray(message or int(length)), dtype=torch.uint8)
    dist.broadcast(data, 0)
    if error is not None:
        raise error
    received = bytes(data.numpy())
    if received[:1] == _REFUSED:
        raise HybridError(received[1:].decode())
    if received[:1] != _GOOD:
        raise HybridError(f"rank 0 could not run the model on the example: {received[1:].decode()}")
    return received[1:]
