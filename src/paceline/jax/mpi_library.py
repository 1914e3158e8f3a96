"""The library that stands for an MPI: where it is, and whether JAX has loaded it.

XLA reaches MPI through MPItrampoline, which loads the library that `MPITRAMPOLINE_LIB` names when `jaxlib` is imported.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from paceline.errors import ConfigurationError

VARIABLE = "MPITRAMPOLINE_LIB"
"""Names the library that JAX loads as its MPI."""


def offer() -> None:
    """Let JAX, when it is imported, load Paceline's library as its MPI, unless the user named another."""
    if "jaxlib" not in sys.modules:
        os.environ.setdefault(VARIABLE, str(path()))


def loaded() -> ctypes.CDLL:
    """Return Paceline's library if JAX has loaded it. Raises ConfigurationError if it has not."""
    try:
        return ctypes.CDLL(str(path()), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        raise ConfigurationError(
            f"JAX has not loaded Paceline's library as its MPI: import paceline.jax before jax, and leave {VARIABLE} "
            "unset"
        ) from None


def path() -> Path:
    """Return the library's path, beside the engine's."""
    engine = importlib.util.find_spec("paceline._engine")
    assert engine is not None and engine.origin is not None
    return Path(engine.origin).with_name("_mpi.so")
