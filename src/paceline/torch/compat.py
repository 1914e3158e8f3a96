"""The differences between the versions of torch. Everything else in this package is the same for all of them."""

from __future__ import annotations

from typing import NoReturn

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from paceline.version import NEWEST_TORCH, OLDEST_TORCH

HOOKS = (2, 14)
"""The first version whose process groups have hooks: around collectives, and on the backend behind each device."""

PIPELINES = (2, 13)
"""The first version whose pipeline stages may pass tensors without gradients."""

all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
"""As torch calls them from 2.13 on, where the old names warn."""


def torch_version() -> tuple[int, int]:
    """Major and minor version of the installed torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def require_supported_torch() -> None:
    """Raise a one-line RuntimeError unless the installed torch is one that this package was tested with."""
    if not OLDEST_TORCH <= torch_version() <= NEWEST_TORCH:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST_TORCH, NEWEST_TORCH))
        raise RuntimeError(f"paceline supports torch {oldest}-{newest}, found {torch.__version__}")


class Base(dist.ProcessGroup):
    """A whole process group in Python, which takes the place of torch's own in every version.

    From 2.14 torch would also take a single backend in Python. It then shows users a holder in place of our Work, which
    hands on `wait` and `get_future` alone (`is_completed` stays False, a receive from any source has no source), and
    each call goes through the dispatcher: 8 to 12 µs instead of 4.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # its stub knows only the other constructor
        if torch_version() >= HOOKS:
            # From 2.15 torch asks every new group for the backend behind its devices, and fails where there is none.
            self._stand_in = _stand_in(rank, size)
            self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self._stand_in)
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)

    def register_pre_hook(self, *_: object) -> NoReturn:
        """Raise a NotImplementedError: torch calls hooks in its dispatcher, where no call of ours comes by."""
        raise NotImplementedError("paceline's collectives go past torch's dispatcher, which would call the hook")

    register_post_hook = register_pre_hook


def _stand_in(rank: int, size: int) -> c10d.Backend:
    class StandIn(c10d.Backend):
        """A backend that is asked what it can do and never does anything."""

        # What a Python subclass leaves out of these, torch looks for without end.
        supports_splitting = supports_coalescing = supports_time_estimate = supports_shrinking = False
        supports_reconfigure = supports_window = False

        def getBackendName(self) -> str:
            return "paceline"

    return StandIn(rank, size)
