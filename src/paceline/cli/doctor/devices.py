"""CUDA devices: whether this process finds a driver, and how collectives on their memory would go."""

from paceline.cli.doctor.finding import Environment, Finding


def devices(here: Environment) -> Finding:
    """Report the driver and the devices, and the path of collectives of their memory."""
    from paceline import _engine

    found = _engine.Devices()
    if why := found.absent():
        return Finding("devices", "none", f"{why}; arrays of the host are not affected")
    names = found.names()
    value = ", ".join(f"{number}: {name}" for number, name in enumerate(names))
    missing = found.no_kernels(0)
    if missing:
        return Finding("devices", value, f"collectives of their memory go through the host: {missing}")
    reason = (
        "ranks that share a device, or whose devices reach each other, time it when they first meet, and send little "
        "through the host, more to memory that all see, and most from where each has it; others send all through the "
        "host"
    )
    return Finding("devices", value, reason)
