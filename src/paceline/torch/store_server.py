"""The rank that serves one of torch's stores, so that an error can name it. A launcher may serve it instead."""

from __future__ import annotations

import torch.distributed as dist

from paceline.errors import NOBODY, Culprit

_of_rank_0: set[tuple[str, int]] = set()  # the hosts and ports of stores


def of_rank_0(store: dist.TCPStore) -> dist.TCPStore:
    """Note that rank 0 of the job serves this store, and return it."""
    _of_rank_0.add((store.host, store.port))
    return store


def server_of(store: dist.Store) -> Culprit:
    """The rank that serves the store, nobody where that is not known."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    known = isinstance(store, dist.TCPStore) and (store.host, store.port) in _of_rank_0
    return Culprit(0) if known else NOBODY
