"""What the environment says: who this rank is, where the others are, and how the user wants Paceline to behave.

This is the only module that reads the environment. Everything else gets a `Settings`.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from paceline.environment import LauncherView, launcher_view
from paceline.partition import OFF, Wish, parse

STORE_PORTS = range(20000, 30000)
"""Where a port is taken from when only the job's identity is known."""

T = TypeVar("T")

_SECRETS = ("PACELINE_SECRET", "PACELINE_METRICS_TOKEN")
_STORE_CANDIDATES = 4
_BINDING = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND")
_TEN_DAYS = 864000.0


class ConfigurationError(ValueError):
    """An environment variable or argument has a value that cannot be meant."""


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where ranks serve metrics. Each takes the port `low` plus its local rank, or the next free one up to `high`."""

    host: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ElasticSeat:
    """Where the driver of an elastic job listens, and which of its workers this process is."""

    host: str
    port: int
    worker: int


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
    report: str | None = None
    """Where the first rank leaves the figures of the run: a JSON file, or - for a table on stderr."""
    metrics: MetricsAddress | None = None
    metrics_token: str | None = None
    elastic: ElasticSeat | None = None
    """Set by the launcher of an elastic job, which says who this rank is in each round."""
    elastic_timeout: float | None = None
    """For the launcher of an elastic job: seconds that a round waits for ranks and hosts."""

    @property
    def one_machine(self) -> bool:
        """Whether the launcher says that all ranks are on this machine."""
        return self.local_size == self.size

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read `environ` (default: this process's). ConfigurationError names the variable and what would be right."""
        env = os.environ if environ is None else environ
        try:
            view = launcher_view(env)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        ports = _given(env, "PACELINE_PORTS", _ports)
        metrics = _given(env, "PACELINE_METRICS", lambda text: _metrics(text, ports))
        token = _given(env, "PACELINE_METRICS_TOKEN", _token)
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
            store_ports=_store_ports(view, ports),
            job=view.job,
            secret=_given(env, "PACELINE_SECRET", _secret),
            machine=_given(env, "PACELINE_MACHINE", _machine),
            interface=_given(env, "PACELINE_INTERFACE", _interface),
            ports=ports,
            timeout=_either(
                _given(env, "PACELINE_TIMEOUT", _timeout),
                _given(env, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", _or_never),
            ),
            spin_us=_given(env, "PACELINE_SPIN_US", _spin_us),
            stall_seconds=_either(
                _given(env, "PACELINE_STALL_SECONDS", _stall_seconds),
                _given(env, "HOROVOD_STALL_CHECK_DISABLE", _never_if_set),
                _given(env, "HOROVOD_STALL_CHECK_TIME_SECONDS", _stall_seconds),
            ),
            trace=env.get("PACELINE_TRACE") or None,
            log_level=_either(
                _given(env, "PACELINE_LOG", _log_level), _given(env, "HOROVOD_LOG_LEVEL", _horovod_log_level)
            ),
            topology=env.get("PACELINE_TOPOLOGY") or None,
            algorithm=_given(env, "PACELINE_ALGORITHM", _algorithm),
            cores=_given(env, "PACELINE_CORES", parse) or OFF,
            thread_count=env.get("OMP_NUM_THREADS") or None,
            bound_by=next((name for name in _BINDING if env.get(name, "false").lower() not in ("", "false")), None),
            start_timeout=_either(
                _given(env, "PACELINE_START_TIMEOUT", _timeout), _given(env, "HOROVOD_START_TIMEOUT", _timeout)
            ),
            policy=_given(env, "PACELINE_POLICY", _policy),
            fusion_bytes=_either(
                _given(env, "PACELINE_FUSION_BYTES", _bytes), _given(env, "HOROVOD_FUSION_THRESHOLD", _bytes)
            ),
            cycle_seconds=_either(
                _given(env, "PACELINE_CYCLE_MS", _milliseconds), _given(env, "HOROVOD_CYCLE_TIME", _milliseconds)
            ),
            cache_capacity=_either(
                _given(env, "PACELINE_CACHE_CAPACITY", _capacity), _given(env, "HOROVOD_CACHE_CAPACITY", _capacity)
            ),
            autotune=_either(_given(env, "PACELINE_AUTOTUNE", _switch), _given(env, "HOROVOD_AUTOTUNE", _switch)),
            autotune_log=env.get("HOROVOD_AUTOTUNE_LOG") or None,
            timeline=env.get("PACELINE_TIMELINE") or env.get("HOROVOD_TIMELINE") or None,
            report=env.get("PACELINE_REPORT") or None,
            metrics=metrics,
            metrics_token=token,
            elastic=_given(env, "PACELINE_ELASTIC", _elastic),
            elastic_timeout=_given(env, "HOROVOD_ELASTIC_TIMEOUT", _timeout),
        )


def derived_ports(job: str, allowed: range, count: int = _STORE_CANDIDATES) -> tuple[int, ...]:
    """Ports that every rank of `job` derives alike. Several, because another program may hold the first."""
    start = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8], "big")
    return tuple(allowed[(start + 1009 * step) % len(allowed)] for step in range(min(count, len(allowed))))


def _store_ports(view: LauncherView, ports: tuple[int, int] | None) -> tuple[int, ...]:
    if view.master_port is not None and not view.master_port_taken:
        return (view.master_port,)
    if not view.job:
        return ()
    return derived_ports(view.job, STORE_PORTS if ports is None else range(ports[0], ports[1] + 1))


def _given(env: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    text = env.get(name, "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        shown = "(hidden)" if name in _SECRETS else repr(text[:80])
        raise ConfigurationError(f"{name}={shown} {error}") from None


def _either(*values: T | None) -> T | None:
    """The first that was given."""
    return next((value for value in values if value is not None), None)


def _secret(text: str) -> bytes:
    if 16 <= len(text.encode()) <= 1024:
        return text.encode()
    raise ValueError(
        "should have 16 to 1024 characters; python3 -c 'import secrets; print(secrets.token_hex())' makes one"
    )


def _machine(text: str) -> str:
    if len(text) <= 128 and text.isprintable():
        return text
    raise ValueError("should be a name of at most 128 printable characters")


def _interface(text: str) -> str:
    items = text.split(",")
    if len(text) <= 1024 and all(re.fullmatch(r"\s*\^?[A-Za-z0-9_.:*?@/-]+\s*", item) for item in items):
        return text
    raise ValueError(
        "should be a comma list of interface names, ^names to leave out, addresses, networks: eth*,10.0.0.0/8"
    )


def _ports(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?", text)
    if match:
        low, high = int(match.group(1)), int(match.group(2) or match.group(1))
        if 1 <= low <= high <= 65535:
            return low, high
    raise ValueError("should be a port range within 1-65535, such as 40000-40050")


def _metrics(text: str, allowed: tuple[int, int] | None) -> MetricsAddress:
    match = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):)?([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if match:
        host = (match[1] or "127.0.0.1").strip("[]")
        low = int(match[2])
        high = int(match[3]) if match[3] else min(65535, allowed[1] if allowed else 65535)
        if 1 <= low <= high <= 65535:
            if allowed is not None and not allowed[0] <= low <= high <= allowed[1]:
                raise ValueError(f"should be within PACELINE_PORTS, {allowed[0]}-{allowed[1]}")
            return MetricsAddress(host, low, high)
    raise ValueError(
        "should be a port or a range of ports, with an address before it if not 127.0.0.1: 0.0.0.0:9400-9407"
    )


def _elastic(text: str) -> ElasticSeat:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})/([0-9]{1,9})", text)
    if match and 1 <= int(match[3]) <= 65535:
        return ElasticSeat(match[1] or match[2], int(match[3]), int(match[4]))
    raise ValueError("should be the launcher's: address, port and number of a worker, as in 10.0.0.1:40000/3")


def _token(text: str) -> str:
    if 16 <= len(text) <= 1024 and text.isascii() and text.isprintable() and " " not in text:
        return text
    raise ValueError(
        "should have 16 to 1024 ASCII characters without spaces; "
        "python3 -c 'import secrets; print(secrets.token_hex())' makes one"
    )


def _number(text: str, lowest: float, highest: float, meaning: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if lowest <= value <= highest:
        return value
    raise ValueError(f"should be {meaning} from {lowest:g} to {highest:g}")


def _timeout(text: str) -> float:
    return _number(text, 0.001, _TEN_DAYS, "a number of seconds")


def _spin_us(text: str) -> float:
    return _number(text, 0.0, 1e6, "a number of microseconds")


def _stall_seconds(text: str) -> float:
    return _number(text, 0.0, _TEN_DAYS, "a number of seconds")


def _or_never(text: str) -> float | None:
    return _number(text, 0.0, _TEN_DAYS, "a number of seconds") or None


def _never_if_set(text: str) -> float | None:
    return 0.0 if _switch(text) else None


def _switch(text: str) -> bool:
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text) != 0
    raise ValueError("should be 0 or 1")


def _milliseconds(text: str) -> float:
    return _number(text, 0.001, 60000.0, "a number of milliseconds") / 1000.0


def _bytes(text: str) -> int:
    return _count(text, 1 << 40, "a number of bytes")


def _capacity(text: str) -> int:
    return _count(text, 1 << 24, "a number of names")


def _count(text: str, highest: int, meaning: str) -> int:
    if re.fullmatch(r"[0-9]{1,16}", text) and int(text) <= highest:
        return int(text)
    raise ValueError(f"should be {meaning} from 0 to {highest}")


def _horovod_log_level(text: str) -> int:
    level = {"TRACE": "DEBUG", "FATAL": "ERROR"}.get(text.upper(), text)
    try:
        return _log_level(level)
    except ValueError:
        raise ValueError("should be one of trace, debug, info, warning, error, fatal") from None


def _log_level(text: str) -> int:
    names = ("DEBUG", "INFO", "WARNING", "ERROR")
    if text.upper() in names:
        return int(getattr(logging, text.upper()))
    raise ValueError(f"should be one of {', '.join(names)}")


def _algorithm(text: str) -> str:
    from paceline.plan.algorithms import ALGORITHMS  # what nobody asks for need not be loaded

    if text in ALGORITHMS:
        return text
    raise ValueError(f"should be one of {', '.join(ALGORITHMS)}")


def _policy(text: str) -> str:
    from paceline.coordinate.options import POLICIES

    if text in POLICIES:
        return text
    raise ValueError(f"should be one of {', '.join(POLICIES)}")
