"""Every public name of Horovod 0.28.1's PyTorch API, with its arguments, their order and their defaults."""

from __future__ import annotations

import importlib
import inspect
import os
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


COMMON = {
    "exceptions": {
        "HorovodInternalError": "args kwargs",
        "HostsUpdatedInterrupt": "skip_sync",
        "HorovodVersionMismatchError get_version_mismatch_message": "name version installed_version",
    },
    "process_sets": {
        "ProcessSet": "ranks_or_comm",
        "add_process_set remove_process_set": "process_set",
        "global_process_set": "",
    },
    "elastic": {
        "State": "bcast_object get_rank",
        "ObjectState": "bcast_object get_rank **kwargs",
        "run_fn": "func reset",
    },
    "util": {
        "mpi_built gloo_built nccl_built ddl_built ccl_built": "verbose=False",
        "extension_available gpu_available": "ext_base_name verbose=False",
        "check_extension": "ext_name ext_env_var pkg_path args",
        "env": "**kwargs",
        "get_average_backwards_compatibility_fun": "reduce_ops",
        "num_rank_is_power_2": "num_rank",
        "split_list": "l n",
        "check_installed_version": "name version exception=None",
        "is_iterable": "x",
        "is_version_greater_equal_than": "ver target",
        "EXTENSIONS": "",
    },
}


@pytest.mark.parametrize("module", COMMON)
def test_what_scripts_import_from_common(module: str) -> None:
    found = importlib.import_module(f"paceline.horovod.common.{module}")
    for names, theirs in COMMON[module].items():
        for name in names.split():
            ours = getattr(found, name)
            if callable(ours) and name != "HorovodInternalError":
                check(ours, theirs)
            if hasattr(hvd, name) and module != "util":
                assert ours is getattr(hvd, name)


def test_runner() -> None:
    from paceline.horovod import runner
    from paceline.horovod.runner.launch import run_commandline

    check(runner.run, RUN)
    check(run_commandline, "")


def test_helpers_of_common(monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.horovod.common import exceptions, util

    assert [util.split_list(list(range(7)), parts) for parts in (3, 1)] == [[[0, 1, 2], [3, 4], [5, 6]], [[*range(7)]]]
    assert [number for number in range(9) if util.num_rank_is_power_2(number)] == [1, 2, 4, 8]
    assert (util.is_iterable(""), util.is_iterable(3)) == (True, False)
    versions = {"2.13.0": True, "2.13.1a0": True, "2.13.0+cpu": True, "2.13": True, "2.13.0rc1": False, "2.9.9": False}
    assert {ver: util.is_version_greater_equal_than(ver, "2.13.0") for ver in versions} == versions
    for wrong in ((2, "2.13.0"), ("2.13.0", "2.13"), ("new", "2.13.0")):
        with pytest.raises(ValueError, match="version"):
            util.is_version_greater_equal_than(*wrong)
    monkeypatch.setenv("HERE", "before")
    monkeypatch.delenv("NEW", raising=False)
    with util.env(HERE="now", NEW="new", NONE=None):
        assert (os.environ["HERE"], os.environ["NEW"], "NONE" in os.environ) == ("now", "new", False)
    assert (os.environ["HERE"], "NEW" in os.environ) == ("before", False)
    assert util.get_average_backwards_compatibility_fun(None)(None, None) == hvd.Average
    assert (util.extension_available("torch"), util.extension_available("mxnet")) == (True, False)
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__)
    with pytest.raises(ImportError, match="mxnet is not there"):
        util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__)
    mismatch = exceptions.HorovodVersionMismatchError("torch", "2.13", "2.12")
    assert (mismatch.name, mismatch.version, mismatch.installed_version) == ("torch", "2.13", "2.12")
