"""Ranks that have imported JAX. Without it, as in the environment of `make test`, there are no tests here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from horovod_ranks import Ranks
from jax_ranks import PRELOAD, in_jax_job

if importlib.util.find_spec("jax") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pools = Ranks(PRELOAD, in_jax_job)
    yield pools
    pools.close()
