from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Ranks


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    crews = Ranks()
    yield crews
    crews.close()
