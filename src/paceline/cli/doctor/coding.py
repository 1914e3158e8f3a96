"""Codecs: how fast this machine encodes, and up to which speed of a network that pays."""

from paceline.cli.doctor.finding import Environment, Finding


def codecs(here: Environment) -> Finding:
    """Report how fast one core encodes and decodes float32 with each codec, by trying it."""
    from paceline.adapt.measure.coding import speed
    from paceline.plan.auto import CODEC
    from paceline.plan.codecs import CODECS

    found = {name: speed(name) for name in CODECS}
    shown = (f"{name} {one.encode / 1e9:.1f} and {one.decode / 1e9:.1f}" for name, one in found.items())
    limit = (1 - 1 / CODEC.ratio) / found[CODEC.name].seconds
    reason = "GB/s of float32 that one core encodes and decodes, tried; "
    reason += f"{CODEC.name} saves time on links below {8 * limit / 1e9:.0f} Gbit/s, if a core is free for it"
    return Finding("codecs", ", ".join(shown), reason)
