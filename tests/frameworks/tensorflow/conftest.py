"""Ranks that have imported TensorFlow. Without it, as in the environment of `make test`, there are no tests here."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator

import pytest
from horovod_ranks import Ranks

if importlib.util.find_spec("tensorflow") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What TensorFlow leaves behind in a rank that is killed goes into a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("ranks")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="module")
def ranks(temporary: None) -> Iterator[Ranks]:
    pools = Ranks(["numpy", "paceline.horovod.tensorflow", "paceline.horovod.tensorflow.keras"])
    yield pools
    pools.close()
