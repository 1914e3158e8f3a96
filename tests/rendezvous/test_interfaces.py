"""Which address to listen on, for machines as people really have them."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from paceline.errors import RendezvousError
from paceline.rendezvous.interfaces import Candidate, addresses, choose, speed

LO = Candidate("lo", "127.0.0.1", "127.0.0.0/8")
DOCKER = Candidate("docker0", "172.17.0.1", "172.17.0.0/16")
ETH = Candidate("eth0", "192.168.1.5", "192.168.1.0/24")
FAST = Candidate("ib0", "10.1.0.5", "10.1.0.0/16")
DOWN = Candidate("eth9", "10.9.0.5", "10.9.0.0/16", up=False)
PUBLIC = Candidate("eth1", "8.8.4.4", "8.8.4.0/24")
SIX = Candidate("eth0", "2001:470::5", "2001:470::/64")
ALL = [LO, DOCKER, ETH, FAST, DOWN, PUBLIC, SIX]


def route(**hosts: str):
    return lambda host: hosts.get(host.replace(".", "_"))


NOWHERE = route()


def test_one_network_namespace_uses_loopback() -> None:
    assert choose(ALL, None, "master", False, NOWHERE).address == "127.0.0.1"


def test_the_route_to_the_master_decides() -> None:
    found = choose(ALL, None, "master", True, route(master="10.1.0.5"))
    assert (found.interface, found.certain) == ("ib0", True)
    assert "master" in found.reason


def test_the_masters_own_machine_never_takes_loopback() -> None:
    """A host name that resolves to 127.0.1.1 at home, with docker0 in the way."""
    found = choose(ALL, None, "master", True, route(master="127.0.0.1", **{"203_0_113_1": "192.168.1.5"}))
    assert (found.interface, found.certain) == ("eth0", False)
    assert "default route" in found.reason


def test_without_any_route_virtual_bridges_are_skipped() -> None:
    assert choose([LO, DOCKER, ETH], None, None, True, NOWHERE).interface == "eth0"


def test_a_route_through_a_bridge_is_taken_when_the_master_is_there() -> None:
    assert choose(ALL, None, "master", True, route(master="172.17.0.1")).interface == "docker0"


@pytest.mark.parametrize(
    ("wish", "address"),
    [
        ("ib0", "10.1.0.5"),
        ("ib*", "10.1.0.5"),
        ("^ib0", "192.168.1.5"),
        ("^eth*", "10.1.0.5"),
        ("^192.168.0.0/16,^ib0", "8.8.4.4"),
        ("10.0.0.0/8", "10.1.0.5"),
        ("172.17.0.1", "172.17.0.1"),
        ("docker0", "172.17.0.1"),
        ("wlan0, ib0", "10.1.0.5"),
        ("eth*,^8.0.0.0/8", "192.168.1.5"),
        ("2001:470::/32", "2001:470::5"),
    ],
)
def test_the_user_chooses(wish: str, address: str) -> None:
    found = choose(ALL, wish, "master", True, NOWHERE)
    assert found.address == address
    assert wish in found.reason


def test_among_wished_ones_the_routed_is_preferred() -> None:
    assert choose(ALL, "eth*", "master", True, route(master="8.8.4.4")).address == "8.8.4.4"


@pytest.mark.parametrize("wish", ["wlan0", "lo", "127.0.0.1", "eth9", "10.2.0.0/16", "^*"])
def test_a_wish_that_fits_nothing_lists_the_candidates(wish: str) -> None:
    with pytest.raises(RendezvousError) as caught:
        choose(ALL, wish, "master", True, NOWHERE)
    for expected in (
        f"PACELINE_INTERFACE={wish} ",
        "ib0 10.1.0.5",
        "docker0 172.17.0.1",
        "eth9 10.9.0.5 (down)",
    ):
        assert expected in str(caught.value)


def test_loopback_may_be_wished_on_one_machine() -> None:
    assert choose(ALL, "lo", None, False, NOWHERE).address == "127.0.0.1"
    assert choose(ALL, "192.168.0.0/16", None, False, NOWHERE).address == "192.168.1.5"


def test_nothing_to_choose_from() -> None:
    with pytest.raises(RendezvousError, match=r"PACELINE_INTERFACE to one of: lo 127\.0\.0\.1"):
        choose([LO], None, None, True, NOWHERE)


def test_public_addresses_are_told_apart() -> None:
    assert choose(ALL, "eth1", None, True, NOWHERE).public
    assert not choose(ALL, "ib0", None, True, NOWHERE).public


def test_addresses_of_this_machine() -> None:
    found = addresses()
    assert any(candidate.loopback for candidate in found)
    assert all("/" in candidate.prefix for candidate in found)


def test_speeds_as_the_kernel_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert speed("no such interface") is None
    known = {"eth0": SimpleNamespace(speed=25000), "virtual0": SimpleNamespace(speed=0)}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: known)
    assert (speed("eth0"), speed("virtual0")) == (25000 * 125e3, None)
