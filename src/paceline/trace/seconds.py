"""Seconds as people read them."""


def shown(seconds: float) -> str:
    """Three digits, and never a power of ten: "0.0517 s", "31.2 s", "1920 s"."""
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
