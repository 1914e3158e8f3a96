"""Ranks that have imported TensorFlow. Without it, as in the environment of `make test`, there are no tests here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from horovod_ranks import Ranks

if importlib.util.find_spec("tensorflow") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pools = Ranks(["numpy", "paceline.horovod.tensorflow", "paceline.horovod.tensorflow.keras"])
    yield pools
    pools.close()
