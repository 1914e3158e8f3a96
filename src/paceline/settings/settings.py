"""One rank's settings: its place in the job, where the others are, and how the user wants Paceline to behave.

This is the only module that reads the environment. Everything else receives a `Settings`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from paceline.cpu.partition import OFF, Wish, parse
from paceline.errors import ConfigurationError
from paceline.settings import parsers
from paceline.settings.launchers import LauncherView, launcher_view

STORE_PORTS = range(20000, 30000)
"""TCP ports from which the store's port is chosen when only the job's identity is known."""

T = TypeVar("T")

_SECRETS = ("PACELINE_SECRET", "PACELINE_METRICS_TOKEN")
_STORE_CANDIDATES = 4
_BINDING = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND")


@dataclass(frozen=True, slots=True)
class Settings:
    """One rank's view of its job. Ports are TCP ports, times are seconds unless the name says otherwise.

    A docstring that begins with a variable's name is that variable's row in docs/reference/settings.md.
    """

    rank: int = 0
    """The number of this rank in the job."""
    size: int = 1
    """The number of ranks in the job."""
    local_rank: int = 0
    """The number of this rank among those that the launcher started on this machine."""
    local_size: int | None = 1
    """The number of ranks that the launcher says it started on this machine; None if it does not say."""
    launcher: str = "none"
    """The launcher that started this rank, by its command; "none" without one."""
    rank_variable: str | None = None
    """The variable that told the rank; every rank's environment has it, and the launcher's own has not."""
    master_address: str | None = None
    """The host or address of rank 0; None if nothing says it."""
    master_port: int | None = None
    """The port at which ranks meet; None if nothing says it."""
    master_port_taken: bool = False
    """True if the launcher itself listens on `master_port`, as torchrun's agent does."""
    store_ports: tuple[int, ...] = ()
    """The ports on which rank 0 may listen for the raw face's store, in the order in which to try them."""
    job: str = ""
    """The job's identity, equal on all its ranks; "" if the launcher gives none."""
    secret: bytes | None = None
    """PACELINE_SECRET: random text, the same on all ranks; connections prove that they know it. Default: `paceline run`
    makes one where it starts all ranks, else rank 0 does."""
    machine: str | None = None
    """PACELINE_MACHINE: the name of this machine; ranks that give the same name share memory. Default: the boot id and
    the network namespace."""
    interface: str | None = None
    """PACELINE_INTERFACE: the network between machines: a name, `^name`, an address, a CIDR, or a list of these.
    Default: the one with the route to the master."""
    ports: tuple[int, int] | None = None
    """PACELINE_PORTS: the range for every listener, such as `40000-40050`. Default: any free port."""
    timeout: float | None = None
    """PACELINE_TIMEOUT: seconds for a meeting and for each operation, where the script gives none. Default: 1800."""
    spin_us: float | None = None
    """PACELINE_SPIN_US: microseconds that a waiting rank spins. Default: 100 if each rank has a CPU, else 0."""
    stall_seconds: float | None = None
    """PACELINE_STALL_SECONDS: seconds that a meeting or an operation waits before a warning names the missing ranks; 0:
    never. Default: 5 for a meeting, 60 for an operation."""
    trace: str | None = None
    """PACELINE_TRACE: the folder where each rank writes its last operations: now and then, when a group fails and when
    it ends."""
    collector: str | None = None
    """PACELINE_COLLECTOR: set by `paceline run`: the abstract Unix socket where a rank reports how a group failed."""
    log_level: int | None = None
    """PACELINE_LOG: the level of the log. Default: that of Python's logging."""
    topology: str | None = None
    """PACELINE_TOPOLOGY: the file that describes the network, the same on all ranks. Default: what the ranks find of
    each other."""
    algorithm: str | None = None
    """PACELINE_ALGORITHM: the all-reduce between machines: `ring`, `halving_doubling`, `rabenseifner`, `tree`,
    `leaders`, `double_tree`, `blueconnect`, `flexreduce`, `paceline`. Default: the cheapest for each size."""
    compress: str = "none"
    """PACELINE_COMPRESS: how sums and means of float32 are encoded between machines, the same on all ranks: `off`,
    `auto` (as `bf16` where that saves time), `bf16`, `fp16`, `three_in_one`, `int8`, `int4`, `lossless`. Default:
    `off`."""
    cuda: str = "nccl"
    """PACELINE_CUDA: who serves memory of CUDA devices. `nccl`: NCCL, for tensors of torch; those of Horovod's calls go
    through the host, and arrays of a group are refused. `engine`: Paceline itself, which has not run on a GPU yet.
    `auto`: as `engine`, but NCCL keeps tensors of torch if it is there, no ranks share a device, and ranks do not time
    Paceline to be faster. Default: `nccl`."""
    cores: Wish = OFF
    """PACELINE_CORES: how this rank's CPUs are divided: `static`, `adaptive`, `off`, or `engine=0,input=1,compute=2-7`.
    Default: `off`."""
    interop_threads: int | None = None
    """PACELINE_INTEROP_THREADS: torch's inter-op threads, set when the first group is made. Default: torch's own
    choice."""
    thread_count: str | None = None
    """The number of threads that OMP_NUM_THREADS asks for, as it is written."""
    bound_by: str | None = None
    """The variable by which the user told OpenMP where its threads run."""
    start_timeout: float | None = None
    """PACELINE_START_TIMEOUT: seconds for a meeting alone, where the script gives none. Default: PACELINE_TIMEOUT."""
    policy: str | None = None
    """PACELINE_POLICY: how ranks that submit named tensors agree on an order: `board`, `graph`, `cycle`,
    `global_sleep`, `nonblocking`. Default: `board`."""
    fusion_bytes: int | None = None
    """PACELINE_FUSION_BYTES: the most bytes of named tensors that are combined together; 0: each tensor goes alone.
    Default: 67108864."""
    cycle_seconds: float | None = None
    """PACELINE_CYCLE_MS: milliseconds of a cycle, for the policies that have cycles; with `board`, how long tensors are
    gathered while no caller waits, 0: not at all. Default: 5."""
    cache_capacity: int | None = None
    """PACELINE_CACHE_CAPACITY: how many names the polling policies remember. Default: 1024."""
    autotune: bool | None = None
    """PACELINE_AUTOTUNE: 1: the first steps find out whether another policy is faster, unless PACELINE_POLICY names
    one, and whether fewer bytes together are, unless PACELINE_FUSION_BYTES says how many. Default: 0."""
    autotune_log: str | None = None
    """The CSV file for what tuning tried (HOROVOD_AUTOTUNE_LOG); None for no file."""
    timeline: str | None = None
    """PACELINE_TIMELINE: the file that rank 0 writes the timeline of named tensors to, from `hvd.init()` on."""
    timeline_marks: bool | None = None
    """True if the timeline marks when each batch was issued (HOROVOD_TIMELINE_MARK_CYCLES)."""
    report: str | None = None
    """PACELINE_REPORT: where the first rank leaves the figures of the run: a JSON file, written now and then and when
    the rank ends, or `-` for tables on stderr at the end."""
    metrics: parsers.MetricsAddress | None = None
    """PACELINE_METRICS: serve Prometheus metrics: a port or a range, with an address before it if not 127.0.0.1. A rank
    takes the first port plus its local rank, within PACELINE_PORTS."""
    metrics_token: str | None = None
    """PACELINE_METRICS_TOKEN: the bearer token, of 16 characters or more, without which metrics are neither served nor
    given."""
    elastic: parsers.ElasticSeat | None = None
    """PACELINE_ELASTIC: set by the launcher of an elastic job: where its driver listens, and which worker this is."""
    elastic_timeout: float | None = None
    """The seconds that a round of an elastic job waits for ranks and hosts (HOROVOD_ELASTIC_TIMEOUT)."""

    @property
    def one_machine(self) -> bool:
        """True if the launcher says that all ranks are on this machine."""
        return self.local_size == self.size

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings in `environ` (None: this process's environment).

        Raises ConfigurationError, which names the variable and what would be right.
        """
        env = os.environ if environ is None else environ
        try:
            view = launcher_view(env)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None

        def value_of(parse: Callable[[str], T | None], *names: str) -> T | None:
            """The value of the first of these variables that is set; all of them must be valid."""
            given = [value for name in names if (value := _given(env, name, parse)) is not None]
            return given[0] if given else None

        ports = value_of(parsers.ports, "PACELINE_PORTS")
        metrics = value_of(lambda text: parsers.metrics_address(text, ports), "PACELINE_METRICS")
        token = value_of(parsers.token, "PACELINE_METRICS_TOKEN")
        if metrics is not None and token is None:
            raise ConfigurationError("PACELINE_METRICS needs PACELINE_METRICS_TOKEN, which every scraper has to send")
        return cls(
            rank=view.rank,
            size=view.size,
            local_rank=view.local_rank,
            local_size=view.local_size,
            launcher=view.launcher,
            rank_variable=view.rank_variable,
            master_address=view.master_address,
            master_port=view.master_port,
            master_port_taken=view.master_port_taken,
            store_ports=_store_ports(view, ports),
            job=view.job,
            secret=value_of(parsers.secret, "PACELINE_SECRET"),
            machine=value_of(parsers.machine, "PACELINE_MACHINE"),
            interface=value_of(parsers.interface, "PACELINE_INTERFACE", "HOROVOD_GLOO_IFACE"),
            ports=ports,
            timeout=_either(
                value_of(parsers.timeout, "PACELINE_TIMEOUT"),
                value_of(parsers.or_never, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"),
            ),
            spin_us=value_of(parsers.spin_us, "PACELINE_SPIN_US"),
            stall_seconds=_either(
                value_of(parsers.stall_seconds, "PACELINE_STALL_SECONDS"),
                value_of(parsers.never_if_set, "HOROVOD_STALL_CHECK_DISABLE"),
                value_of(parsers.stall_seconds, "HOROVOD_STALL_CHECK_TIME_SECONDS"),
            ),
            trace=env.get("PACELINE_TRACE") or None,
            collector=env.get("PACELINE_COLLECTOR") or None,
            log_level=_either(
                value_of(parsers.log_level, "PACELINE_LOG"), value_of(parsers.horovod_log_level, "HOROVOD_LOG_LEVEL")
            ),
            topology=env.get("PACELINE_TOPOLOGY") or None,
            algorithm=value_of(parsers.algorithm, "PACELINE_ALGORITHM"),
            compress=value_of(parsers.codec, "PACELINE_COMPRESS") or "none",
            cuda=value_of(parsers.cuda, "PACELINE_CUDA") or "nccl",
            cores=value_of(parse, "PACELINE_CORES") or OFF,
            interop_threads=value_of(parsers.threads, "PACELINE_INTEROP_THREADS"),
            thread_count=env.get("OMP_NUM_THREADS") or None,
            bound_by=next((name for name in _BINDING if env.get(name, "false").lower() not in ("", "false")), None),
            start_timeout=value_of(parsers.timeout, "PACELINE_START_TIMEOUT", "HOROVOD_START_TIMEOUT"),
            policy=value_of(parsers.policy, "PACELINE_POLICY"),
            fusion_bytes=value_of(parsers.byte_count, "PACELINE_FUSION_BYTES", "HOROVOD_FUSION_THRESHOLD"),
            cycle_seconds=value_of(parsers.milliseconds, "PACELINE_CYCLE_MS", "HOROVOD_CYCLE_TIME"),
            cache_capacity=value_of(parsers.capacity, "PACELINE_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY"),
            autotune=value_of(parsers.switch, "PACELINE_AUTOTUNE", "HOROVOD_AUTOTUNE"),
            autotune_log=env.get("HOROVOD_AUTOTUNE_LOG") or None,
            timeline=env.get("PACELINE_TIMELINE") or env.get("HOROVOD_TIMELINE") or None,
            timeline_marks=value_of(parsers.switch, "HOROVOD_TIMELINE_MARK_CYCLES"),
            report=env.get("PACELINE_REPORT") or None,
            metrics=metrics,
            metrics_token=token,
            elastic=value_of(parsers.elastic_seat, "PACELINE_ELASTIC"),
            elastic_timeout=value_of(parsers.timeout, "HOROVOD_ELASTIC_TIMEOUT"),
        )


def port_range(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the first and the last port of PACELINE_PORTS, None if it is not set. Raises ConfigurationError."""
    return _given(environ, "PACELINE_PORTS", parsers.ports)


def derived_ports(job: str, allowed: range, count: int = _STORE_CANDIDATES) -> tuple[int, ...]:
    """Return up to `count` ports among `allowed` that every rank of `job` derives alike.

    There are several because another program may hold the first.
    """
    start = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8], "big")
    return tuple(allowed[(start + 1009 * step) % len(allowed)] for step in range(min(count, len(allowed))))


def _store_ports(view: LauncherView, ports: tuple[int, int] | None) -> tuple[int, ...]:
    if view.master_port is not None and not view.master_port_taken:
        return (view.master_port,)
    if not view.job:
        return ()
    return derived_ports(view.job, STORE_PORTS if ports is None else range(ports[0], ports[1] + 1))


def _given(env: Mapping[str, str], name: str, parse: Callable[[str], T | None]) -> T | None:
    text = env.get(name, "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        shown = "(hidden)" if name in _SECRETS else repr(text[:80])
        raise ConfigurationError(f"{name}={shown} {error}") from None


def _either(*values: T | None) -> T | None:
    """The first value that was set."""
    return next((value for value in values if value is not None), None)
