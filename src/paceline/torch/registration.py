"""Tells torch the name "paceline". It is cheap and never fails, because torch calls it while it is being imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.torch.name import NAME

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import _DistributedBackendOptions

    from paceline.torch.backend import PacelineProcessGroup


def register() -> None:
    """Make `init_process_group("paceline")` known to torch, also under MPI's launchers and srun.

    May be called any number of times.
    """
    import torch.distributed

    if not torch.distributed.is_available():
        return
    torch.distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    from paceline.torch.env_method import extend

    extend()


def _create(options: _DistributedBackendOptions, backend_options: object) -> PacelineProcessGroup:
    from paceline.torch import compat

    compat.require_supported_torch()
    from paceline.process.current import runtime
    from paceline.torch.backend import PacelineProcessGroup, everybody, refuse_forked
    from paceline.torch.timeouts import limits

    refuse_forked()
    return PacelineProcessGroup(
        options.store,
        options.group_rank,
        options.group_size,
        limits(runtime().settings, options.timeout),
        options.group_id,
        parent=everybody(),
        ranks=options.global_ranks_in_group,
    )
