"""A network that is gone while ranks are idle: the connections are tried, and the lost rank is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import PROGRAMS
from on_lab import ended, heard, ranks_on

from paceline.lab.lab import Lab
from paceline.topology import parse

TOPOLOGY = """
children:
  - {machine: alpha, ranks: 1, uplink: 1 Gbit/s}
  - {machine: beta, ranks: 1, uplink: 1 Gbit/s}
"""


@pytest.mark.needs("a lab")
def test_an_idle_rank_notices_that_its_peer_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TOPOLOGY)
    waits = {"PACELINE_TIMEOUT": "120", "PACELINE_START_TIMEOUT": "60"}
    with (
        Lab(parse(TOPOLOGY), file) as lab,
        ranks_on(lab, (0, 1), PROGRAMS / "idle_peer.py", **waits) as ranks,
    ):
        for rank in ranks:
            heard(rank, "ready")
        lab.cut("beta")
        outs, errs = ended(ranks, deadline=250)
    assert [rank.returncode for rank in ranks] == [7, 7], errs
    for rank, out in enumerate(outs):
        told = json.loads(out)
        assert told["noticed"] and told["kind"] == "PeerLost", told
        other = ("alpha", "beta")[1 - rank]
        assert f"rank {1 - rank} (host {other}, pid " in told["message"], told
