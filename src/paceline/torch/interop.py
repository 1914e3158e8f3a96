"""Sets torch's inter-op threads, for which torch has a function and no variable."""

from __future__ import annotations

import logging
from functools import cache

import torch

log = logging.getLogger("paceline")


@cache
def use_interop_threads(count: int) -> None:
    """Let torch run so many operations at once where a program asks for that, as `torch.jit.fork` does.

    Torch can be told only once, and before it has run any; otherwise a warning is logged and nothing changes.
    """
    try:
        torch.set_num_interop_threads(count)
    except RuntimeError as error:
        log.warning("torch keeps %d inter-op threads: %s", torch.get_num_interop_threads(), error)
