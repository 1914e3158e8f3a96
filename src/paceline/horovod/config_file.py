"""Reads the file of horovodrun's `--config-file` as command-line arguments."""

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
_LONGEST = 64 << 10
"""Bytes of a config file."""
_DEEPEST = 8
"""Levels that are read; more than two are told apart by what is wrong with them."""


def arguments(path: Path) -> tuple[list[str], list[str]]:
    """Return the arguments that the file stands for, and one sentence for each key that has no effect here.

    Raises ValueError with one sentence if the file cannot be read or is not a valid config file.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"cannot read the config file {path}: {reason}") from None
    if len(text) > _LONGEST:
        raise ValueError(f"the config file {path} should have at most {_LONGEST >> 10} KiB")
    try:
        _check_plain(text)
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the config file {path} is not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise ValueError(f"the config file {path}: {error}") from None
    try:
        options: list[str] = []
        unknown: list[str] = []
        for section, key, value in _entries({} if found is None else found):
            if section == "controller":
                options.append(_controller(value))
            elif section not in _KEYS:
                unknown.append(f"the config file {path}: {section} has no effect: there is no such section")
            elif key not in _KEYS[section].split():
                keys = _KEYS[section].replace(" ", ", ")
                unknown.append(f"the config file {path}: {section}.{key} has no effect: {section} has the keys {keys}")
            else:
                options.append(_option(_PREFIXES[section], key, value))
        return options, unknown
    except ValueError as error:
        raise ValueError(f"the config file {path}: {error}") from None


def _check_plain(text: str) -> None:
    """Raise ValueError for aliases, of which a few lines can stand for billions, and for more levels than it has."""
    level = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"line {line}: aliases (*{event.anchor}) are not supported; write the value out")
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if level > _DEEPEST:
            raise ValueError(f"line {line}: it has two levels, section and key, and not {level}")


def _entries(found: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (section, key, value) for each entry that has a value."""
    if not isinstance(found, dict):
        raise ValueError(f"it should have the sections {', '.join(['controller', *_KEYS])}")
    for section, values in found.items():
        if section not in _KEYS:
            if values is not None:
                yield str(section), "", values
        elif isinstance(values, dict):
            yield from ((section, str(key), value) for key, value in values.items() if value is not None)
        elif values is not None:
            raise ValueError(f"{section} should have the keys {_KEYS[section].replace(' ', ', ')}")


def _controller(value: Any) -> str:
    name = str(value).lower()
    if name not in _CONTROLLERS:
        raise ValueError(f"controller should be one of {', '.join(_CONTROLLERS)}, not {value!r:.80}")
    return f"--{name}"


def _option(prefix: str, key: str, value: Any) -> str:
    name = prefix.rstrip("-") if key == "enabled" else prefix + key.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--{_opposite(name)}"
    if isinstance(value, (int, float, str)):
        return f"--{name}={value}"
    raise ValueError(f"{key} should be a number, a text, true or false, not {value!r:.80}")


def _opposite(name: str) -> str:
    return "log-without-timestamp" if name == "log-with-timestamp" else f"no-{name}"
