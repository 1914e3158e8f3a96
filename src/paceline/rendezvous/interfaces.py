"""Choose the network address to listen on: the one that routes to the other ranks, or the user's choice."""

from __future__ import annotations

import fnmatch
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paceline.errors import RendezvousError
from paceline.rendezvous.dial import source_address

log = logging.getLogger("paceline.rendezvous")

Route = Callable[[str], "str | None"]
"""A function that returns the local address from which packets to a host leave, or None without a route."""

_VIRTUAL = ("docker*", "virbr*", "br-*", "veth*", "cni*", "flannel*", "cali*", "lxc*", "lxdbr*", "podman*")
"""Names of virtual interfaces, which other machines usually cannot reach."""
_SOMEWHERE = ("203.0.113.1", "2001:db8::1")
"""Addresses reserved for documentation, which follow the default route. Nothing is sent to them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An address of this machine; `prefix` is its network, as address/length."""

    interface: str
    address: str
    prefix: str
    up: bool = True

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach the address."""
        return ipaddress.ip_address(self.address).is_loopback

    def __str__(self) -> str:
        return f"{self.interface} {self.address}{'' if self.up else ' (down)'}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The address to bind, and the reason; `certain` is False for a guess made before any other machine was known."""

    address: str
    interface: str
    reason: str
    certain: bool = True

    @property
    def public(self) -> bool:
        """True if the address is one that the whole internet could reach."""
        return ipaddress.ip_address(self.address).is_global


def choose(
    candidates: Sequence[Candidate],
    asked: str | None,
    target: str | None,
    several_machines: bool,
    route: Route = source_address,
) -> Choice:
    """Return the address to listen on, for ranks that meet at `target`.

    asked: the text of PACELINE_INTERFACE, None where it is not set. target: a host name or address of another rank,
    None where it is not known. several_machines: whether there are ranks on other machines.
    Raises RendezvousError, which lists the candidates, if none fits.
    """
    routed = route(target) if target else None
    if asked:
        return _asked_for(candidates, asked, routed, several_machines)
    if not several_machines:
        return Choice("127.0.0.1", "lo", "all ranks are in one network namespace")
    by_address = {c.address: c for c in candidates if c.up and not c.loopback}
    if routed in by_address:
        found = by_address[routed]
        return Choice(found.address, found.interface, f"packets to {target} leave there")
    guess = [c for c in by_address.values() if not _matches_any(c, _VIRTUAL) and not _link_local(c)]
    default_routes = [address for somewhere in _SOMEWHERE if (address := route(somewhere))]
    for candidate in guess:
        if candidate.address in default_routes:
            return Choice(candidate.address, candidate.interface, "the default route leaves there", certain=False)
    if guess:
        first = guess[0]
        return Choice(first.address, first.interface, "the first that is neither virtual nor loopback", certain=False)
    raise RendezvousError(
        "the ranks are on several machines, but this one has no address that they could reach; "
        f"set PACELINE_INTERFACE to one of: {_listed(candidates)}"
    )


def own(candidates: Sequence[Candidate], meant: Sequence[str]) -> Choice | None:
    """Return the first of the addresses `meant`, those of MASTER_ADDR, that this machine has; None if it has none.

    Loopback addresses do not count.
    """
    here = {c.address: c for c in candidates if c.up and not c.loopback}
    for address in meant:
        if address in here:
            return Choice(address, here[address].interface, "MASTER_ADDR names it")
    return None


def report(choice: Choice, who: str) -> None:
    """Log where `who` listens and why, at level INFO, or WARNING for a public address."""
    level = logging.WARNING if choice.public else logging.INFO
    advice = "; this is a public address, PACELINE_INTERFACE chooses another" if choice.public else ""
    log.log(level, "%s listens on %s %s: %s%s", who, choice.interface, choice.address, choice.reason, advice)


def _asked_for(candidates: Sequence[Candidate], asked: str, routed: str | None, several_machines: bool) -> Choice:
    items = [item.strip() for item in asked.split(",") if item.strip()]
    unwanted = [item[1:] for item in items if item.startswith("^")]
    wanted = [item for item in items if not item.startswith("^")]
    left = [c for c in candidates if c.up and not _matches_any(c, unwanted)]
    if several_machines:
        left = [c for c in left if not c.loopback]
    if not wanted:
        left = [c for c in left if not _matches_any(c, _VIRTUAL) and (c.loopback is not several_machines)]
        wanted = ["*"]
    for item in wanted:
        fitting = [c for c in left if _matches(c, item)]
        if fitting:
            best = next((c for c in fitting if c.address == routed), fitting[0])
            return Choice(best.address, best.interface, f"PACELINE_INTERFACE={asked}")
    loopback = " (loopback cannot join several machines)" if several_machines else ""
    raise RendezvousError(
        f"PACELINE_INTERFACE={asked} fits no address of this machine{loopback}: {_listed(candidates)}"
    )


def _matches(candidate: Candidate, item: str) -> bool:
    """Return whether `item`, an interface name (with * and ?), an address or a CIDR network, fits the candidate."""
    try:
        return ipaddress.ip_address(candidate.address) in ipaddress.ip_network(item, strict=False)
    except ValueError:
        return fnmatch.fnmatchcase(candidate.interface, item)


def _matches_any(candidate: Candidate, items: Iterable[str]) -> bool:
    return any(_matches(candidate, item) for item in items)


def _link_local(candidate: Candidate) -> bool:
    return ipaddress.ip_address(candidate.address).is_link_local


def _listed(candidates: Sequence[Candidate]) -> str:
    return ", ".join(map(str, candidates)) or "none found"


def addresses() -> list[Candidate]:
    """Return all IP addresses of this machine, IPv4 before IPv6."""
    import psutil  # the import takes 15 ms, and a job on one machine does not need it

    stats = psutil.net_if_stats()
    found: list[Candidate] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for name, entries in psutil.net_if_addrs().items():
            for entry in entries:
                if entry.family == family and "%" not in entry.address:
                    network = ipaddress.ip_network(f"{entry.address}/{_prefix_length(entry.netmask)}", strict=False)
                    found.append(Candidate(name, entry.address, str(network), name in stats and stats[name].isup))
    return found


def _prefix_length(netmask: str | None) -> int:
    return 0 if not netmask else int(ipaddress.ip_address(netmask)).bit_count()


def speed(interface: str) -> float | None:
    """Return the bytes per second, each way, of an interface of this machine; None where the kernel does not know."""
    import psutil

    stats = psutil.net_if_stats().get(interface)
    return stats.speed * 125e3 if stats is not None and stats.speed > 0 else None
