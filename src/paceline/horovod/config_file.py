"""The file of horovodrun's `--config-file`, as the words of a command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_PREFIXES = {
    "params": "",
    "autotune": "autotune-",
    "timeline": "timeline-",
    "stall_check": "stall-check-",
    "library_options": "",
    "logging": "log-",
}
_KEYS = {
    "params": (
        "fusion_threshold_mb cycle_time_ms cache_capacity hierarchical_allreduce hierarchical_allgather torus_allreduce"
    ),
    "autotune": "enabled log_file warmup_samples steps_per_sample bayes_opt_max_samples gaussian_process_noise",
    "timeline": "filename mark_cycles",
    "stall_check": "enabled warning_time_seconds shutdown_time_seconds",
    "library_options": "mpi_threads_disable num_nccl_streams thread_affinity gloo_timeout_seconds",
    "logging": "level with_timestamp",
}
_CONTROLLERS = ("gloo", "mpi")


def words(path: Path) -> list[str]:
    """The options that the file stands for. ValueError, one sentence, for a file that is none."""
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"cannot read the config file {path}: {reason}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"the config file {path} is not YAML: {' '.join(str(error).split())}") from None
    try:
        return list(_words({} if found is None else found))
    except ValueError as error:
        raise ValueError(f"the config file {path}: {error}") from None


def _words(found: Any) -> Iterator[str]:
    known = ", ".join(["controller", *_KEYS])
    if not isinstance(found, dict):
        raise ValueError(f"it should have the sections {known}")
    for section, values in found.items():
        if section == "controller":
            if values not in _CONTROLLERS:
                raise ValueError(f"controller should be one of {', '.join(_CONTROLLERS)}, not {values!r}")
            yield f"--{values}"
            continue
        if section not in _KEYS:
            raise ValueError(f"there is no section {section!r}; there are {known}")
        if not isinstance(values, dict):
            raise ValueError(f"{section} should have the keys {_KEYS[section].replace(' ', ', ')}")
        for key, value in values.items():
            if key not in _KEYS[section].split():
                raise ValueError(f"{section} has no key {key!r}; it has {_KEYS[section].replace(' ', ', ')}")
            if value is not None:
                yield from _option(_PREFIXES[section], key, value)


def _option(prefix: str, key: str, value: Any) -> list[str]:
    name = prefix.rstrip("-") if key == "enabled" else prefix + key.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--{_opposite(name)}"]
    if isinstance(value, (int, float, str)):
        return [f"--{name}={value}"]
    raise ValueError(f"{key} should be a number, a text, true or false, not {value!r}")


def _opposite(name: str) -> str:
    return "log-without-timestamp" if name == "log-with-timestamp" else f"no-{name}"
