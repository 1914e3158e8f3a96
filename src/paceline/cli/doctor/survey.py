"""All of the doctor's checks, in the order in which a person would ask for them."""

import importlib
from collections.abc import Mapping

from paceline.cli.doctor.finding import Environment, Finding
from paceline.errors import ConfigurationError
from paceline.settings.settings import Settings

# Topic, module of this package, function. Each is imported separately: a failed import is a finding too.
_CHECKS = (
    ("machine", "software", "machine"),
    ("Python", "software", "python"),
    ("torch", "software", "torch"),
    ("engine", "software", "engine"),
    ("CPUs", "cpu", "cpus"),
    ("waiting", "cpu", "waiting"),
    ("sessions", "cpu", "sessions"),
    ("threads", "cpu", "threads"),
    ("cores", "cpu", "division"),
    ("memory", "memory", "memory"),
    ("within this machine", "network", "within_machine"),
    ("cross-process reads", "memory", "cross_process_reads"),
    ("blocks", "memory", "blocks"),
    ("large arrays", "memory", "large_arrays"),
    ("/dev/shm", "memory", "dev_shm"),
    ("huge pages", "memory", "huge_pages"),
    ("locked memory", "memory", "locked_memory"),
    ("codecs", "coding", "codecs"),
    ("devices", "devices", "devices"),
    ("interfaces", "network", "interfaces"),
    ("between machines", "network", "between_machines"),
    ("ports", "network", "ports"),
    ("secret", "network", "secret"),
)


def survey(environ: Mapping[str, str]) -> list[Finding]:
    """Run all checks. A check that fails becomes a finding, because the doctor is asked when things do not work."""
    found = []
    try:
        settings = Settings.from_environment(environ)
    except ConfigurationError as error:
        found.append(Finding("environment", "wrong", str(error), "correct it; the rest is shown as if none were set"))
        settings = Settings()
    here = Environment(environ, settings)
    return found + [_examine(topic, module, function, here) for topic, module, function in _CHECKS]


def _examine(topic: str, module: str, function: str, here: Environment) -> Finding:
    try:
        finding: Finding = getattr(importlib.import_module(f"paceline.cli.doctor.{module}"), function)(here)
        return finding
    except Exception as error:
        return Finding(topic, "could not be examined", f"{type(error).__name__}: {error}")
