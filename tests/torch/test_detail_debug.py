"""Everything works the same under TORCH_DISTRIBUTED_DEBUG=DETAIL."""

from __future__ import annotations

import pytest
import test_collectives
import test_ddp
import test_p2p
from torch_ranks import Ranks

CHECKS = [
    test_collectives.check_movements,
    test_collectives.check_coalesced,
    test_collectives.check_objects,
    test_ddp.check_options,
    test_ddp.check_unused_parameters,
    test_p2p.check_ring,
    test_p2p.check_batch,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_detail(ranks: Ranks, check: object) -> None:
    ranks(check, 2, deadline=250, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})  # type: ignore[arg-type]
