"""The approaches to distributed training that can be compared, and how their ranks are started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.cpu.budget import available
from paceline_bench import systems
from paceline_bench.systems import Missing, System

GRPC, GRPC_X, NO_GRPC, NONE = "gRPC", "gRPC+X", "no-gRPC", "none"
"""The kinds of the characterisation by Awan et al. (arXiv:1810.11112): gRPC moves all data; it only arranges what
something else moves; there is none. "none" exchanges nothing.
"""
MPIS = ("openmpi", "mpich", "intelmpi")


@dataclass(frozen=True)
class Places:
    """The installations of other systems. peers: the environment of the MPIs and Horovod; tensorflow: TensorFlow's."""

    peers: Path
    tensorflow: Path


@dataclass(frozen=True)
class Approach:
    """One approach.

    framework: what computes the gradients. about: says in one clause how they are exchanged. make: returns the system
    for a number of ranks; raises Missing.
    """

    name: str
    kind: str
    framework: str
    about: str
    make: Callable[[Places, int], System]

    def system(self, places: Places, ranks: int) -> System:
        """Return the system whose ranks train by this approach. Raises Missing."""
        return replace(self.make(places, ranks), name=self.name, path=self.framework)


def _torch(backend: str) -> Callable[[Places, int], System]:
    def make(places: Places, ranks: int) -> System:
        system = systems.paceline("torch") if backend == "paceline" else systems.peer("gloo", places.peers)[0]
        return replace(system, adapter=".approaches.torch_ddp:TorchDdp", options={"backend": backend})

    return make


def _mpi(name: str, places: Places, ranks: int, how: str) -> System:
    systems.peer("gloo", places.peers)  # torch computes the gradients
    crowded = ranks > available().cpus
    settings = systems.peer(name, places.peers, crowded=crowded)
    return replace(
        settings[-1 if crowded else 0], adapter=".approaches.torch_mpi:TorchMpi", options={"sum": how}, variant=""
    )


def _all_reduce(name: str) -> Callable[[Places, int], System]:
    return lambda places, ranks: _mpi(name, places, ranks, "allreduce")


def _ring(places: Places, ranks: int) -> System:
    try:
        return _mpi("openmpi", places, ranks, "ring")
    except Missing:
        return _mpi("mpich", places, ranks, "ring")


def _horovod(places: Places, ranks: int) -> System:
    return replace(systems.by_name(places.peers)[1], adapter=".approaches.torch_horovod:TorchHorovod")


def _horovod_face(places: Places, ranks: int) -> System:
    system = systems.paceline("torch")
    options = {"module": "paceline.horovod.torch"}
    return replace(system, adapter=".approaches.torch_horovod:TorchHorovod", options=options)


def _tensorflow(adapter: str, *beside: str) -> Callable[[Places, int], System]:
    """beside: the modules that the ranks need in TensorFlow's environment, besides TensorFlow."""

    def make(places: Places, ranks: int) -> System:
        python = systems.interpreter(places.tensorflow)
        if not systems.has(python, "tensorflow", *beside):
            what = " with ".join(("tensorflow", *beside))
            raise Missing(f"{what} is not installed in {places.tensorflow}; --tensorflow names where it is.")
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
        return System("", "", f".approaches.{adapter}", python=python, environment=quiet)

    return make


_ALL = (
    Approach("none-tensorflow", NONE, "tensorflow", "nothing is exchanged", _tensorflow("tf_steps:TfSteps")),
    Approach(
        *("grpc", GRPC, "tensorflow", "TensorFlow's parameter servers, one in every rank, over gRPC"),
        _tensorflow("tf_server:TfServer"),
    ),
    Approach(
        *("grpc-x", GRPC_X, "tensorflow", "parameter servers, requests over gRPC and tensors over Paceline's engine"),
        _tensorflow("tf_x:TfX", "paceline", "grpc"),
    ),
    Approach(
        *("grpc-ring", GRPC, "tensorflow", "MultiWorkerMirroredStrategy, TensorFlow's ring over gRPC"),
        _tensorflow("tf_ring:TfRing"),
    ),
    Approach(
        *("paceline-tensorflow", NO_GRPC, "tensorflow", "named gradients through Paceline's face of Horovod's API"),
        _tensorflow("tf_horovod:TfHorovod", "paceline"),
    ),
    Approach("none-torch", NONE, "torch", "nothing is exchanged", _torch("none")),
    Approach("baidu-ring", NO_GRPC, "torch", "Baidu's ring by MPI_Sendrecv, for each tensor", _ring),
    Approach("gloo", NO_GRPC, "torch", "DDP over Gloo", _torch("gloo")),
    Approach("openmpi", NO_GRPC, "torch", "DDP whose buckets Open MPI's MPI_Allreduce sums", _all_reduce("openmpi")),
    Approach("mpich", NO_GRPC, "torch", "DDP whose buckets MPICH's MPI_Allreduce sums", _all_reduce("mpich")),
    Approach("intelmpi", NO_GRPC, "torch", "DDP whose buckets Intel MPI's MPI_Allreduce sums", _all_reduce("intelmpi")),
    Approach("horovod", NO_GRPC, "torch", "Horovod's DistributedOptimizer", _horovod),
    Approach("paceline-horovod", NO_GRPC, "torch", "the same through Paceline's face of Horovod's API", _horovod_face),
    Approach("paceline", NO_GRPC, "torch", "DDP over Paceline", _torch("paceline")),
)
APPROACHES = {one.name: one for one in _ALL}
CHOICES = tuple(one.name for one in _ALL if one.kind != NONE)
"""The approaches that can be chosen. Those of the kind "none" are measured beside them."""


def reference(framework: str) -> str:
    """Return the name of the approach that computes with this framework and exchanges nothing."""
    return f"none-{framework}"
