"""Every public name of Horovod 0.28.1's PyTorch API, with its arguments, their order and their defaults."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import paceline.horovod.torch as hvd
from paceline import horovod
from paceline.horovod import run_function
from paceline.horovod.torch import elastic

ALL_REDUCE = "average=None name=None op=None prescale_factor=1.0 postscale_factor=1.0 process_set=world"
COMPRESSED = (
    "average=None name=None compression=none op=None prescale_factor=1.0 postscale_factor=1.0 process_set=world"
)
SCATTER = "name=None op=Average process_set=world prescale_factor=1.0 postscale_factor=1.0"
SCATTER_COMPRESSED = f"name=None compression=none {SCATTER.removeprefix('name=None ')}"

CALLS = {
    "init": "comm=None process_sets=None",
    "start_timeline": "file_path mark_cycles=False",
    "shutdown is_initialized stop_timeline size local_size cross_size rank local_rank cross_rank": "",
    "is_homogeneous mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built": "",
    "nccl_built ddl_built ccl_built cuda_built rocm_built": "",
    "allreduce_async allreduce_async_ allreduce_": f"tensor {ALL_REDUCE}",
    "allreduce": f"tensor {COMPRESSED}",
    "grouped_allreduce_async grouped_allreduce_async_ grouped_allreduce_": f"tensors {ALL_REDUCE}",
    "grouped_allreduce": f"tensors {COMPRESSED}",
    "sparse_allreduce_async": "tensor name op process_set=world",
    "allgather allgather_async": "tensor name=None process_set=world",
    "grouped_allgather grouped_allgather_async": "tensors name=None process_set=world",
    "broadcast broadcast_ broadcast_async broadcast_async_": "tensor root_rank name=None process_set=world",
    "alltoall alltoall_async": "tensor splits=None name=None process_set=world",
    "reducescatter_async": f"tensor {SCATTER}",
    "reducescatter": f"tensor {SCATTER_COMPRESSED}",
    "grouped_reducescatter_async": f"tensors {SCATTER}",
    "grouped_reducescatter": f"tensors {SCATTER_COMPRESSED}",
    "join": "device=-1",
    "barrier": "process_set=world",
    "poll synchronize": "handle",
    "ProcessSet": "ranks_or_comm",
    "add_process_set remove_process_set": "process_set",
    "broadcast_parameters": "params root_rank",
    "broadcast_optimizer_state": "optimizer root_rank model=None",
    "broadcast_object": "obj root_rank=0 name=None process_set=world",
    "allgather_object": "obj name=None",
    "DistributedOptimizer": "optimizer named_parameters=None compression=none backward_passes_per_step=1 op=Average "
    "gradient_predivide_factor=1.0 num_groups=0 groups=None sparse_as_dense=False process_set=world",
    "SyncBatchNorm": "num_features eps=1e-05 momentum=0.1 affine=True track_running_stats=True",
}
FUNCTIONS = {name: takes for names, takes in CALLS.items() for name in names.split()}

ELASTIC = {
    "run": "func",
    "TorchState": "model=None optimizer=None **kwargs",
    "ElasticSampler": "dataset shuffle=True seed=0",
    "State": "bcast_object get_rank",
    "ObjectState": "bcast_object get_rank **kwargs",
}

METHODS = {
    (hvd.ProcessSet, "size rank included"): "self",
    (elastic.ElasticSampler, "set_epoch"): "self epoch",
    (elastic.ElasticSampler, "record_batch"): "self batch_idx batch_size",
    (elastic.ElasticSampler, "load_state_dict"): "self state_dict",
    (elastic.ElasticSampler, "state_dict reset __iter__ __len__"): "self",
    (elastic.TorchState, "register_reset_callbacks"): "self callbacks",
    (elastic.TorchState, "on_hosts_updated"): "self timestamp update_res",
    (elastic.TorchState, "on_reset commit check_host_updates save restore sync reset"): "self",
}

RUN = """func args=() kwargs=None num_proc=1 min_num_proc=None max_num_proc=None slots=None reset_limit=None
    cooldown_range=None hosts=None hostfile=None host_discovery_script=None start_timeout=None ssh_port=None
    ssh_identity_file=None disable_cache=None output_filename=None verbose=None use_gloo=None use_mpi=None mpi_args=None
    network_interface=None network_interfaces=None executable=None np=None min_np=None max_np=None"""


def takes(call: Callable[..., Any]) -> list[str]:
    """The arguments of a call, as they are written above."""
    words = {id(hvd.global_process_set): "world", id(hvd.Compression.none): "none"}
    found = []
    for one in inspect.signature(call).parameters.values():
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            found.append(f"**{one.name}")
        elif one.default is inspect.Parameter.empty:
            found.append(one.name)
        else:
            value = "Average" if one.name == "op" and one.default == hvd.Average else repr(one.default)
            found.append(f"{one.name}={words.get(id(one.default), value)}")
    return found


def check(ours: Callable[..., Any], theirs: str) -> None:
    """What is more here comes last, and has a default."""
    expected, found = theirs.split(), takes(ours)
    assert found[: len(expected)] == expected
    assert all("=" in argument for argument in found[len(expected) :])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls(name: str) -> None:
    check(getattr(hvd, name), FUNCTIONS[name])


@pytest.mark.parametrize("name", ELASTIC)
def test_elastic_calls(name: str) -> None:
    check(getattr(elastic, name), ELASTIC[name])


def test_methods() -> None:
    for (kind, names), theirs in METHODS.items():
        for name in names.split():
            check(getattr(kind, name), theirs)


def test_there_is_nothing_less_and_nothing_more() -> None:
    values = {"Average", "Sum", "Adasum", "Min", "Max", "Product", "Compression", "elastic", "global_process_set"}
    assert sorted(hvd.__all__) == sorted({*FUNCTIONS, *values, "HorovodInternalError"})
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))


def test_horovod_run() -> None:
    check(run_function.run, RUN)
    assert horovod.__version__ == "0.28.1"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("mpi_ops", "Sum allreduce_async_ init local_rank poll synchronize ProcessSet HorovodInternalError"),
        ("functions", "allgather_object broadcast_object broadcast_optimizer_state broadcast_parameters"),
        ("optimizer", "DistributedOptimizer"),
        ("compression", "Compression"),
        ("sync_batch_norm", "SyncBatchNorm"),
        ("elastic.sampler", "ElasticSampler"),
        ("elastic.state", "TorchState"),
    ],
)
def test_modules_that_scripts_import_from(module: str, names: str) -> None:
    found = importlib.import_module(f"paceline.horovod.torch.{module}")
    for name in names.split():
        home = elastic if module.startswith("elastic") else hvd
        assert getattr(found, name) is getattr(home, name)
