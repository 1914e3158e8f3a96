"""JAX's coordination service: where rank 0 has it, and how long it waits for ranks at their end."""

from __future__ import annotations

import inspect
import socket

import jax
import numpy as np

from paceline.group.group import Group
from paceline.process.current import runtime

SHUTDOWN = 10
"""Seconds for which a rank that ends waits in JAX for the others, which Paceline has brought together before; a dead
one never comes. JAX has had this setting since 0.7."""
LONGEST_ADDRESS = 64
"""Bytes of a numeric address with its port."""


def connect(group: Group, address: str | None, options: dict[str, object]) -> None:
    """Call `jax.distributed.initialize` on all ranks of `group`.

    address: where rank 0 listens, as host:port; None: a free port of rank 0. options: what else that function takes.
    """
    chosen = address or _free_address(group)
    known = inspect.signature(jax.distributed.initialize).parameters
    usual = {"coordinator_bind_address": chosen, "shutdown_timeout_seconds": SHUTDOWN}
    arguments = {name: value for name, value in usual.items() if name in known} | options
    jax.distributed.initialize(chosen, group.size, group.rank, **arguments)


def _free_address(group: Group) -> str:
    """Return an address of rank 0 with a port that was free a moment ago; the same on all ranks."""
    members = runtime().membership(group.channel).members
    word = np.zeros(LONGEST_ADDRESS, np.uint8)
    if group.rank == 0:
        host = "127.0.0.1" if len({member.machine for member in members}) == 1 else members[0].address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        word[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    group.broadcast(word)
    return word.tobytes().rstrip(b"\0").decode()
