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
from paceline.settings import parsers
from paceline.settings.launchers import LauncherView, launcher_view

STORE_PORTS = range(20000, 30000)
"""TCP ports from which the store's port is chosen when only the job's identity is known."""

T = TypeVar("T")

_SECRETS = ("PACELINE_SECRET", "PACELINE_METRICS_TOKEN")
_STORE_CANDIDATES = 4
_BINDING = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND")


class ConfigurationError(ValueError):
    """An environment variable or argument has an impossible value; the message names it and says what is right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One rank's view of its job. Ports are TCP ports, times seconds unless the name says otherwise."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int | None = 1
    """Ranks that the launcher says it started on this machine; None where it does not say."""
    launcher: str = "none"
    rank_variable: str | None = None
    """The variable that told the rank: what every rank's environment has and the launcher's own has not."""
    master_address: str | None = None
    master_port: int | None = None
    master_port_taken: bool = False
    """The launcher itself listens on `master_port`, as torchrun's agent does."""
    store_ports: tuple[int, ...] = ()
    """Where rank 0 may listen for the raw face's store, in the order to try."""
    job: str = ""
    """The job's identity, equal on all its ranks; empty where the launcher gives none."""
    secret: bytes | None = None
    machine: str | None = None
    interface: str | None = None
    ports: tuple[int, int] | None = None
    timeout: float | None = None
    spin_us: float | None = None
    stall_seconds: float | None = None
    trace: str | None = None
    log_level: int | None = None
    topology: str | None = None
    """The file that describes the network."""
    algorithm: str | None = None
    """The all-reduce to use between machines."""
    cores: Wish = OFF
    """How this rank's CPUs are divided."""
    thread_count: str | None = None
    """What OMP_NUM_THREADS says."""
    bound_by: str | None = None
    """The variable by which the user told OpenMP where its threads run."""
    start_timeout: float | None = None
    """For the meeting alone, where it may not last as long as an operation."""
    policy: str | None = None
    """How named requests become an order that all ranks share."""
    fusion_bytes: int | None = None
    cycle_seconds: float | None = None
    cache_capacity: int | None = None
    autotune: bool | None = None
    """Whether the first steps are used to find out how named requests are carried out best."""
    autotune_log: str | None = None
    """The file for what was tried."""
    timeline: str | None = None
    """The file for the timeline of named requests."""
    timeline_marks: bool | None = None
    """Whether it marks when each batch was issued."""
    report: str | None = None
    """Where the first rank leaves the figures of the run: a JSON file, or - for a table on stderr."""
    metrics: parsers.MetricsAddress | None = None
    metrics_token: str | None = None
    elastic: parsers.ElasticSeat | None = None
    """Set by the launcher of an elastic job, which says who this rank is in each round."""
    elastic_timeout: float | None = None
    """For the launcher of an elastic job: seconds that a round waits for ranks and hosts."""

    @property
    def one_machine(self) -> bool:
        """Whether the launcher says that all ranks are on this machine."""
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
            raise ConfigurationError("PACELINE_METRICS needs PACELINE_METRICS_TOKEN, which whoever asks has to send")
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
            log_level=_either(
                value_of(parsers.log_level, "PACELINE_LOG"), value_of(parsers.horovod_log_level, "HOROVOD_LOG_LEVEL")
            ),
            topology=env.get("PACELINE_TOPOLOGY") or None,
            algorithm=value_of(parsers.algorithm, "PACELINE_ALGORITHM"),
            cores=value_of(parse, "PACELINE_CORES") or OFF,
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
