"""Paceline's log: Python's own, with PACELINE_LOG as a switch for those who configured nothing."""

from __future__ import annotations

import logging

from paceline.settings import Settings

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(settings: Settings) -> None:
    """Set the level that the environment asks for, and write to stderr unless the program has handlers of its own."""
    if settings.log_level is None:
        return
    log = logging.getLogger("paceline")
    log.setLevel(settings.log_level)
    if not log.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        log.addHandler(handler)
