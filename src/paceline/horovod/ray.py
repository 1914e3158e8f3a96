"""Ray Train runs a function that was written for Horovod: `from paceline.horovod.ray import HorovodTrainer`.

Ray's own trainer of this name needs Horovod, and raises DeprecationWarning since Ray Train's second version.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paceline.horovod.rank_layout import rank_variables
from paceline.settings.settings import Settings

if importlib.util.find_spec("ray") is None:
    raise ImportError("paceline.horovod.ray needs Ray Train, which is not installed: pip install 'ray[train]'")

import ray
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

if TYPE_CHECKING:
    from ray.train import DataConfig, RunConfig, ScalingConfig
    from ray.train.backend import BaseWorkerGroup

__all__ = ["HorovodConfig", "HorovodTrainer"]


@dataclass
class HorovodConfig(BackendConfig):
    """The settings by which the workers of a HorovodTrainer meet.

    nics: names of network interfaces of which each node uses its first; chosen by the route to rank 0 by default. key:
    the secret that a worker must know to join; drawn anew for each start by default. timeout_s: seconds within which
    the workers must have met.

    Of Ray's own class `ssh_port`, `ssh_identity_file`, `ssh_str`, `verbose` and `placement_group_timeout_s` are not
    there: nothing here goes through SSH.
    """

    nics: Sequence[str] | None = None
    key: str | None = field(default=None, repr=False)
    timeout_s: float = 300

    def __post_init__(self) -> None:
        """Raise ConfigurationError, which names the setting that a field becomes, for values that make no sense."""
        Settings.from_environment(self.variables())

    def variables(self) -> dict[str, str]:
        """Return what all workers find in their environment."""
        found = {"PACELINE_START_TIMEOUT": str(self.timeout_s)}
        if self.key is not None:
            found["PACELINE_SECRET"] = self.key
        if self.nics:
            found["PACELINE_INTERFACE"] = ",".join(self.nics)
        return found

    @property
    def backend_cls(self) -> type[HorovodBackend]:
        """The class that sets the workers up."""
        return HorovodBackend


class HorovodBackend(Backend):
    """Tells each worker its rank and where rank 0 will listen, so that `hvd.init()` needs no launcher."""

    share_cuda_visible_devices = True

    def on_start(self, worker_group: BaseWorkerGroup, backend_config: HorovodConfig) -> None:
        """Set the environment of all workers. Ray calls it before the training function, and again after a failure."""
        nodes = worker_group.execute(_node)
        address, port = worker_group.execute_single(0, _address_and_port)
        common = {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
            "PACELINE_SECRET": secrets.token_hex(32),
            **backend_config.variables(),
        }
        told = [
            worker_group.execute_single_async(rank, _set_environment, {**common, **variables})
            for rank, variables in enumerate(rank_variables(nodes))
        ]
        ray.get(told)


class HorovodTrainer(DataParallelTrainer):
    """Runs a function that calls `hvd.init()` on the workers of Ray Train, one rank each.

    The parameters are those of Ray's trainers. train_loop_per_worker: the function; it takes either nothing or
    `train_loop_config`. `hvd` in it is `paceline.horovod.torch` or any other face of Horovod's API.

    `fit()` raises `ray.train.TrainingFailedError`, with the errors of the ranks in it, as Ray's other trainers do.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        horovod_config: HorovodConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=horovod_config or HorovodConfig(),
            scaling_config=scaling_config,
            dataset_config=dataset_config,
            run_config=run_config,
            datasets=datasets,
        )


def _node() -> str:
    node: str = ray.get_runtime_context().get_node_id()
    return node


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def _address_and_port() -> tuple[str, int]:
    """The address of this node and a port that is free now; rank 0 listens there a moment later."""
    address = ray.util.get_node_ip_address()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return address, probe.getsockname()[1]
