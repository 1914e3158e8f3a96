"""CUDA devices: whether this process finds a driver, and how collectives on their memory would go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.cli.doctor.finding import Environment, Finding

if TYPE_CHECKING:
    from paceline import _engine


def devices(here: Environment) -> Finding:
    """Report the driver and the devices, and the path of collectives of their memory."""
    from paceline import _engine

    found = _engine.Devices()
    if why := found.absent():
        return Finding("devices", "none", f"{why}; arrays of the host are not affected")
    if here.settings.cuda == "nccl":
        reason = (
            "NCCL serves CUDA tensors of torch, and those of Horovod's calls go through the host; PACELINE_CUDA=engine "
            "lets Paceline serve them, and other arrays, itself: not by default, because that has not run on a GPU yet"
        )
        return Finding("devices", _named(found), reason)
    value = _named(found)
    missing = found.no_kernels(0)
    if missing:
        return Finding("devices", value, f"collectives of their memory go through the host: {missing}")
    reason = (
        "ranks that share a device, or whose devices reach each other, time it when they first meet, and send little "
        "through the host, more to memory that all see, and most from where each has it; others send all through the "
        "host"
    )
    return Finding("devices", value, reason)


def _named(found: _engine.Devices) -> str:
    return ", ".join(f"{number}: {name}" for number, name in enumerate(found.names()))
