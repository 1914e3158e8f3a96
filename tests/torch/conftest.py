from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch_ranks import Ranks


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pools = Ranks()
    yield pools
    pools.close()
