"""The environments that launchers leave, and values that cannot be meant."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cpu.partition import OFF, Wish
from paceline.errors import ConfigurationError
from paceline.settings.launchers import first_host
from paceline.settings.parsers import ElasticSeat
from paceline.settings.settings import STORE_PORTS, Settings, derived_ports

read = Settings.from_environment

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node7",
    "MASTER_PORT": "29400",
    "TORCHELASTIC_RUN_ID": "f00",
    "TORCHELASTIC_RESTART_COUNT": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
OPEN_MPI_4 = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_MCA_ess_base_jobid": "3405512705",
    "PMIX_NAMESPACE": "3405512705",
}
OPEN_MPI_5 = {**OPEN_MPI_4, "PMIX_NAMESPACE": "prterun-node7-4711@1"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_FD": "5"}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "7",
    "SLURM_LOCALID": "2",
    "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "n[01-03,7],gpu2",
    "SLURM_TASKS_PER_NODE": "3(x2),1",
}


def test_no_launcher_is_one_rank() -> None:
    found = read({})
    assert (found.rank, found.size, found.local_rank, found.local_size) == (0, 1, 0, 1)
    assert found.launcher == "none"
    assert found.one_machine


def test_torchrun() -> None:
    found = read(TORCHRUN)
    assert (found.rank, found.size, found.local_rank, found.local_size) == (3, 4, 1, 2)
    assert (found.launcher, found.master_address, found.master_port) == ("torchrun", "node7", 29400)
    assert not found.one_machine


def test_the_port_that_torchruns_agent_holds_is_not_used_for_the_store() -> None:
    found = read(TORCHRUN)
    assert 29400 not in found.store_ports
    assert all(port in STORE_PORTS for port in found.store_ports)
    plain = read({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node7", "MASTER_PORT": "29400"})
    assert plain.store_ports == (29400,)
    assert plain.local_size is None


def test_a_restarted_job_is_another_job_where_all_ranks_count_alike() -> None:
    """Only the agent of the machine on which a rank failed counts a restart; the others follow without."""
    restarted = {"TORCHELASTIC_RESTART_COUNT": "2"}
    here = {**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}
    assert read(here).job != read({**here, **restarted}).job
    spread, again = read(TORCHRUN), read({**TORCHRUN, **restarted})
    assert (spread.job, spread.store_ports) == (again.job, again.store_ports)


@pytest.mark.parametrize("environ", [OPEN_MPI_4, OPEN_MPI_5])
def test_open_mpi(environ: dict[str, str]) -> None:
    found = read(environ)
    assert (found.rank, found.size, found.local_rank, found.local_size) == (2, 4, 2, 4)
    assert found.launcher == "Open MPI"
    assert found.master_address == "127.0.0.1"
    assert environ["PMIX_NAMESPACE"] in found.job
    assert found.store_ports == derived_ports(found.job, STORE_PORTS)


def test_open_mpi_on_several_machines_needs_an_address() -> None:
    found = read({**OPEN_MPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert found.master_address is None
    assert read({**OPEN_MPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "n1"}).master_address == "n1"


def test_mpich_and_intel_mpi() -> None:
    found = read(MPICH)
    assert (found.rank, found.size, found.local_rank, found.local_size) == (1, 2, 1, 2)
    assert (found.master_address, found.rank_variable, found.job) == ("127.0.0.1", "PMI_RANK", "")


def test_pmi_under_slurm_finds_the_first_host() -> None:
    pmi2 = {name: value for name, value in SLURM.items() if name not in ("SLURM_PROCID", "SLURM_NTASKS")}
    found = read({**pmi2, "PMI_RANK": "5", "PMI_SIZE": "7"})
    assert (found.rank, found.master_address, found.local_rank, found.local_size) == (5, "n01", 2, 3)
    assert "4711" in found.job


def test_slurm() -> None:
    found = read(SLURM)
    assert (found.rank, found.size, found.local_rank, found.local_size) == (5, 7, 2, 3)
    assert (found.launcher, found.master_address) == ("Slurm", "n01")
    assert all(port in STORE_PORTS for port in found.store_ports)
    last = read({**SLURM, "SLURM_PROCID": "6", "SLURM_LOCALID": "0", "SLURM_NODEID": "2"})
    assert last.local_size == 1


def test_slurm_step_wins_over_its_job() -> None:
    found = read({**SLURM, "SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_NODELIST": "n03"})
    assert (found.size, found.master_address) == (6, "n03")


def test_mpirun_inside_a_slurm_allocation_is_mpirun() -> None:
    assert read({**SLURM, **OPEN_MPI_5}).launcher == "Open MPI"


HOROVODRUN = {
    "HOROVOD_HOSTNAME": "n02",
    "HOROVOD_RANK": "2",
    "HOROVOD_SIZE": "4",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "1",
    "HOROVOD_CROSS_SIZE": "2",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "41234",
    "HOROVOD_CONTROLLER": "gloo",
}


def test_horovodrun() -> None:
    found = read(HOROVODRUN)
    assert (found.rank, found.size, found.local_rank, found.local_size) == (2, 4, 0, 2)
    assert (found.launcher, found.rank_variable) == ("horovodrun", "HOROVOD_RANK")
    assert (found.master_address, found.store_ports) == ("10.0.0.1", derived_ports(found.job, STORE_PORTS))
    assert read({**HOROVODRUN, "HOROVOD_LOCAL_SIZE": "4"}).master_address == "127.0.0.1"
    assert read({**HOROVODRUN, "MASTER_ADDR": "n01"}).master_address == "n01"
    assert read({**SLURM, **HOROVODRUN}).launcher == "horovodrun"
    assert read({**HOROVODRUN, **TORCHRUN}).launcher == "torchrun"


def test_half_an_environment_is_none() -> None:
    assert read({"WORLD_SIZE": "4", "MASTER_ADDR": "n1", "MASTER_PORT": "5"}).size == 1


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("n[01-03,7],gpu2", "n01"),
        ("gpu2,n[01-03]", "gpu2"),
        ("node-1.cluster", "node-1.cluster"),
        ("a[1-2]b[3-4]", "a1b3"),
        ("rack[7,9]", "rack7"),
        ("n[007]", "n007"),
    ],
)
def test_first_host(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host


@pytest.mark.parametrize("nodelist", ["", "[", "n[", "n[]", "n[x-y]", ",n1", "n1]", "n[[1]]", "n 1", "n[1-2]x["])
def test_a_bad_nodelist_is_named(nodelist: str) -> None:
    if not nodelist:
        with pytest.raises(ValueError, match="host list"):
            first_host(nodelist)
        return
    with pytest.raises(ConfigurationError, match="SLURM_JOB_NODELIST"):
        read({**SLURM, "SLURM_JOB_NODELIST": nodelist})


@given(st.text(max_size=40))
def test_any_nodelist_is_parsed_or_refused(nodelist: str) -> None:
    try:
        host = first_host(nodelist)
    except ValueError:
        return
    assert host
    assert "[" not in host


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RANK", "4"),
        ("RANK", "-1"),
        ("RANK", "one"),
        ("WORLD_SIZE", "0"),
        ("WORLD_SIZE", "99999999999"),
        ("LOCAL_WORLD_SIZE", "5"),
        ("MASTER_PORT", "65536"),
        ("PACELINE_PORTS", "40050-40000"),
        ("PACELINE_PORTS", "0-10"),
        ("PACELINE_PORTS", "many"),
        ("PACELINE_SECRET", "short"),
        ("PACELINE_SECRET", "x" * 2000),
        ("PACELINE_TIMEOUT", "0"),
        ("PACELINE_TIMEOUT", "nan"),
        ("PACELINE_TIMEOUT", "soon"),
        ("PACELINE_SPIN_US", "-1"),
        ("PACELINE_SPIN_US", "1000001"),
        ("PACELINE_STALL_SECONDS", "-1"),
        ("PACELINE_STALL_SECONDS", "never"),
        ("PACELINE_LOG", "loud"),
        ("PACELINE_MACHINE", "x" * 200),
        ("PACELINE_MACHINE", "a\nb"),
        ("PACELINE_INTERFACE", "eth0,,eth1"),
        ("PACELINE_INTERFACE", "eth0; rm"),
        ("PACELINE_ALGORITHM", "best"),
        ("PACELINE_COMPRESS", "zip"),
        ("PACELINE_CORES", "all"),
        ("PACELINE_CUDA", "rocm"),
        ("PACELINE_INTEROP_THREADS", "0"),
        ("PACELINE_START_TIMEOUT", "0"),
        ("PACELINE_POLICY", "best"),
        ("PACELINE_FUSION_BYTES", "64M"),
        ("PACELINE_CYCLE_MS", "-1"),
        ("PACELINE_CACHE_CAPACITY", "-1"),
        ("PACELINE_AUTOTUNE", "yes"),
        ("PACELINE_ELASTIC", "driver:4000/1"),
        ("PACELINE_ELASTIC", "10.0.0.1:70000/1"),
        ("HOROVOD_FUSION_THRESHOLD", "-1"),
        ("HOROVOD_AUTOTUNE", "-1"),
        ("HOROVOD_CYCLE_TIME", "soon"),
        ("HOROVOD_GLOO_IFACE", "eth0; rm"),
        ("HOROVOD_TIMELINE_MARK_CYCLES", "yes"),
        ("HOROVOD_CACHE_CAPACITY", "many"),
        ("HOROVOD_START_TIMEOUT", "never"),
        ("HOROVOD_ELASTIC_TIMEOUT", "0"),
        ("HOROVOD_STALL_CHECK_DISABLE", "yes"),
        ("HOROVOD_STALL_CHECK_TIME_SECONDS", "-1"),
        ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "nan"),
        ("HOROVOD_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{variable}=.* should ") as caught:
        read({**TORCHRUN, variable: value})
    assert not re.search(r"[0-9]e[+-]?[0-9]", str(caught.value))  # bounds are written in full


def test_the_bounds_of_a_number_are_written_in_full() -> None:
    with pytest.raises(ConfigurationError, match=r"^PACELINE_SPIN_US='2e6' should be a number .* from 0 to 1000000$"):
        read({"PACELINE_SPIN_US": "2e6"})
    with pytest.raises(ConfigurationError, match=r"^PACELINE_TIMEOUT='0' should be a number .* from 0\.001 to 864000$"):
        read({"PACELINE_TIMEOUT": "0"})


def test_an_unknown_algorithm_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"PACELINE_ALGORITHM='best' should be one of ring, .*, paceline"):
        read({"PACELINE_ALGORITHM": "best"})


def test_a_secret_is_not_printed() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read({"PACELINE_SECRET": "open sesame"})
    assert "sesame" not in str(caught.value)


def test_wishes() -> None:
    found = read(
        {
            "PACELINE_SECRET": "correct horse battery staple",
            "PACELINE_MACHINE": "left",
            "PACELINE_INTERFACE": "eth*,^docker0, 10.0.0.0/8",
            "PACELINE_PORTS": "40000-40050",
            "PACELINE_TIMEOUT": "2.5",
            "PACELINE_SPIN_US": "0",
            "PACELINE_STALL_SECONDS": "0",
            "PACELINE_TRACE": "/tmp/traces",
            "PACELINE_LOG": "debug",
            "PACELINE_TOPOLOGY": "cluster.yaml",
            "PACELINE_ALGORITHM": "flexreduce",
            "PACELINE_COMPRESS": "int8",
            "PACELINE_CORES": "adaptive",
            "PACELINE_CUDA": "engine",
            "PACELINE_INTEROP_THREADS": "3",
            "PACELINE_START_TIMEOUT": "30",
            "PACELINE_POLICY": "cycle",
            "PACELINE_FUSION_BYTES": "0",
            "PACELINE_CYCLE_MS": "2.5",
            "PACELINE_CACHE_CAPACITY": "0",
            "PACELINE_TIMELINE": "timeline.json",
            "PACELINE_ELASTIC": "[::1]:4000/12",
        }
    )
    assert found.secret == b"correct horse battery staple"
    assert (found.machine, found.ports, found.timeout, found.spin_us) == ("left", (40000, 40050), 2.5, 0.0)
    assert found.stall_seconds == 0.0
    assert (found.trace, found.log_level) == ("/tmp/traces", logging.DEBUG)
    assert (found.topology, found.algorithm, found.compress) == ("cluster.yaml", "flexreduce", "int8")
    assert read({}).compress == read({"PACELINE_COMPRESS": "off"}).compress == "none"
    assert read({"PACELINE_COMPRESS": "auto"}).compress == "auto"
    assert found.interop_threads == 3
    assert found.cuda == "engine" and read({}).cuda == "nccl"
    assert found.cores == Wish("adaptive") and read({}).cores == OFF
    assert (found.start_timeout, found.policy, found.fusion_bytes, found.cycle_seconds) == (30.0, "cycle", 0, 0.0025)
    assert (found.cache_capacity, found.timeline) == (0, "timeline.json")
    assert found.elastic == ElasticSeat("::1", 4000, 12)
    assert read({"PACELINE_PORTS": " 40000 "}).ports == (40000, 40000)


@pytest.mark.parametrize(
    ("environ", "count", "variable"),
    [
        ({}, None, None),
        ({"OMP_NUM_THREADS": "3", "OMP_PROC_BIND": "false"}, "3", None),
        ({"OMP_PROC_BIND": "close"}, None, "OMP_PROC_BIND"),
        ({"GOMP_CPU_AFFINITY": "0-3", "OMP_PLACES": "cores"}, None, "GOMP_CPU_AFFINITY"),
    ],
)
def test_what_the_user_told_openmp(environ: dict[str, str], count: str | None, variable: str | None) -> None:
    assert (read(environ).thread_count, read(environ).bound_by) == (count, variable)


HOROVODS = {
    "HOROVOD_FUSION_THRESHOLD": "1024",
    "HOROVOD_CYCLE_TIME": "3.5",
    "HOROVOD_CACHE_CAPACITY": "7",
    "HOROVOD_AUTOTUNE": "1",
    "HOROVOD_AUTOTUNE_LOG": "tried.csv",
    "HOROVOD_TIMELINE": "t.json",
    "HOROVOD_TIMELINE_MARK_CYCLES": "1",
    "HOROVOD_GLOO_IFACE": "eth1",
    "HOROVOD_START_TIMEOUT": "45",
    "HOROVOD_ELASTIC_TIMEOUT": "30",
    "HOROVOD_STALL_CHECK_TIME_SECONDS": "20",
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "90",
    "HOROVOD_LOG_LEVEL": "trace",
}


def test_horovods_variables_mean_the_same_here() -> None:
    found = read(HOROVODS)
    assert (found.fusion_bytes, found.cycle_seconds, found.cache_capacity) == (1024, 0.0035, 7)
    assert (found.autotune, found.autotune_log) == (True, "tried.csv")
    assert (found.timeline, found.timeline_marks, found.log_level) == ("t.json", True, logging.DEBUG)
    assert found.interface == "eth1"
    assert found.elastic_timeout == 30.0
    assert (found.start_timeout, found.stall_seconds, found.timeout) == (45.0, 20.0, 90.0)
    assert read({**HOROVODS, "HOROVOD_STALL_CHECK_DISABLE": "1"}).stall_seconds == 0.0
    assert read({**HOROVODS, "HOROVOD_STALL_CHECK_DISABLE": "0"}).stall_seconds == 20.0
    assert read({"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0"}).timeout is None
    assert read({"HOROVOD_CYCLE_TIME": "0"}).cycle_seconds == 0.0


def test_pacelines_own_variables_win_over_horovods() -> None:
    own = {
        "PACELINE_FUSION_BYTES": "5",
        "PACELINE_CYCLE_MS": "6",
        "PACELINE_CACHE_CAPACITY": "8",
        "PACELINE_AUTOTUNE": "0",
        "HOROVOD_AUTOTUNE_LOG": "tried.csv",
        "HOROVOD_ELASTIC_TIMEOUT": "30",
        "PACELINE_TIMELINE": "own.json",
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "PACELINE_INTERFACE": "eth2",
        "PACELINE_START_TIMEOUT": "9",
        "PACELINE_STALL_SECONDS": "10",
        "PACELINE_TIMEOUT": "11",
        "PACELINE_LOG": "ERROR",
    }
    found = read({**HOROVODS, "HOROVOD_STALL_CHECK_DISABLE": "1", **own})
    assert found == read(own)
    assert (found.fusion_bytes, found.stall_seconds, found.timeout) == (5, 10.0, 11.0)
    assert found.autotune is False


def test_the_derived_port_obeys_the_port_range() -> None:
    found = read({**TORCHRUN, "PACELINE_PORTS": "40000-40002"})
    assert found.store_ports
    assert set(found.store_ports) <= {40000, 40001, 40002}


@given(st.text(), st.integers(1, 60000), st.integers(1, 500))
def test_derived_ports_lie_in_the_range(job: str, low: int, count: int) -> None:
    ports = derived_ports(job, range(low, low + count))
    assert ports == derived_ports(job, range(low, low + count))
    assert all(low <= port < low + count for port in ports)
