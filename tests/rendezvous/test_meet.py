"""Ranks meet, as threads that each have a process identity and an engine of their own."""

from __future__ import annotations

import gc
import json
import os
import random
import secrets
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from meeting_ranks import Rank, close, expect_everywhere, meet_all, open_descriptors
from rendezvous_fakes import FakeNative, good, in_threads, process, settings

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous import (
    Link,
    Meeting,
)
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress, UnixName, connect
from paceline.rendezvous.link import CREATOR, RECEIVER
from paceline.rendezvous.store import MemoryStore, Store
from paceline.settings.settings import Settings


def check_links(meetings: Sequence[Meeting]) -> None:
    """Every pair is joined by one connection, which carries bytes both ways and nothing left over."""
    size = len(meetings)
    assert len({meeting.channel for meeting in meetings}) == 1
    for rank, meeting in enumerate(meetings):
        assert sorted(meeting.links) == [other for other in range(size) if other != rank]
        for other, link in meeting.links.items():
            check_pair(link, meetings[other].links[rank], rank, other)


def check_pair(mine: Link, its: Link, rank: int, other: int) -> None:
    mine.sock.setblocking(True)
    its.sock.setblocking(True)
    word = f"{rank} to {other}".encode()
    mine.sock.sendall(word)
    assert its.sock.recv(100) == word
    assert mine.shared == its.shared
    assert mine.readable == its.readable
    assert not os.get_inheritable(mine.sock.fileno())
    if mine.shared:
        assert not os.get_inheritable(mine.memory_fd)
        assert {mine.side, its.side} == {CREATOR, RECEIVER}
        assert mine.side == (CREATOR if rank > other else RECEIVER)
        assert mine.pid == os.getpid()
        assert os.fstat(mine.memory_fd).st_ino == os.fstat(its.memory_fd).st_ino
        assert os.fstat(mine.arena_fd).st_ino != os.fstat(its.arena_fd).st_ino


@pytest.mark.parametrize("size", range(1, 7))
def test_one_machine(size: int) -> None:
    meetings = good(meet_all([Rank() for _ in range(size)], MemoryStore()))
    check_links(meetings)
    assert all(link.shared and link.readable for m in meetings for link in m.links.values())
    close(meetings)


@pytest.mark.parametrize("machines", ["ab", "aabb", "abab", "aab", "abcde"])
def test_several_machines(machines: str) -> None:
    ranks = [Rank(process(machine)) for machine in machines]
    meetings = good(meet_all(ranks, MemoryStore()))
    check_links(meetings)
    for rank, meeting in enumerate(meetings):
        for other, link in meeting.links.items():
            assert link.shared == (machines[rank] == machines[other])
            if not link.shared:
                assert link.sock.getsockname()[0] == "127.0.0.1"  # names differ, the network namespace does not
                assert link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                # Firewalls forget connections that are idle for some minutes.
                assert link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 120
    close(meetings)


def test_a_rank_alone_needs_no_store() -> None:
    meeting = Rank().meet(None, 0, 1)
    assert meeting.links == {}
    assert meeting.channel > 0


def test_memory_is_readable_only_if_both_can() -> None:
    meetings = good(meet_all([Rank(), Rank(native=FakeNative(readable=False))], MemoryStore()))
    assert not any(link.readable for m in meetings for link in m.links.values())
    check_links(meetings)
    close(meetings)


def test_linked_processes_open_nothing_for_another_group(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [Rank() for _ in range(4)]
    first = good(meet_all(ranks, MemoryStore()))
    monkeypatch.setattr("paceline.rendezvous.linking.listen_unix", lambda name: pytest.fail("a listener"))
    again = good(meet_all(list(reversed(ranks[1:])), MemoryStore()))
    assert all(meeting.links == {} for meeting in again)
    assert len({meeting.channel for meeting in again}) == 1
    assert again[0].channel != first[0].channel
    close(first)


def test_a_group_of_old_and_new_links_only_what_is_new() -> None:
    ranks = [Rank() for _ in range(4)]
    first = good(meet_all(ranks[:2], MemoryStore()))
    second = good(meet_all(ranks, MemoryStore()))
    assert [sorted(meeting.links) for meeting in second] == [[2, 3], [2, 3], [0, 1, 3], [0, 1, 2]]
    close([*first, *second])


def test_a_store_may_be_used_again() -> None:
    """A job that destroys its group and makes it again finds its own old records."""
    store = MemoryStore()
    ranks = [Rank() for _ in range(3)]
    meetings = [good(meet_all(ranks, store)) for _ in range(3)]
    assert len({meeting.channel for group in meetings for meeting in group}) == 3
    close(meetings[0])


def test_two_jobs_do_not_mix() -> None:
    jobs = [[Rank() for _ in range(3)] for _ in range(2)]
    stores = [MemoryStore(), MemoryStore()]
    results = in_threads([partial(meet_all, job, store) for job, store in zip(jobs, stores, strict=True)])
    for ranks, meetings in zip(jobs, good(results), strict=True):
        names = {rank.process.name for rank in ranks}
        check_links(good(meetings))
        assert all({m.process for m in meeting.members} == names for meeting in good(meetings))
        close(meetings)


def test_a_meeting_that_needs_no_links_leaves_no_descriptor() -> None:
    ranks, store = [Rank(), Rank()], MemoryStore()
    first = good(meet_all(ranks, store))
    gc.collect()
    gc.disable()  # what is closed is closed at once
    try:
        before = open_descriptors()
        assert [meeting.links for meeting in good(meet_all(ranks, store))] == [{}, {}]
        assert open_descriptors() == before
    finally:
        gc.enable()
    close(first)


def test_ports_lie_in_the_range() -> None:
    low = random.SystemRandom().randrange(33000, 60000)
    seen: list[int] = []
    ranks = [Rank(process(machine), ports=(low, low + 20)) for machine in "abcd"]
    meetings = good(meet_all(ranks, MemoryStore()))
    for meeting in meetings:
        for other, link in meeting.links.items():
            own = meeting.members.index(next(m for m in meeting.members if m.rank not in meeting.links))
            if own < other:
                seen.append(link.sock.getsockname()[1])
    assert seen
    assert all(low <= port <= low + 20 for port in seen)
    close(meetings)


class Watched(MemoryStore):
    """A store that lets a test in between two rounds of the meeting."""

    def __init__(self, when: str, then: Callable[[bytes], None]) -> None:
        super().__init__()
        self._when, self._then = when, then

    def set(self, key: str, value: bytes) -> None:
        if key.endswith(self._when):
            self._then(value)
        super().set(key, value)


def places_of(value: bytes) -> list[UnixName | TcpAddress]:
    place = json.loads(value)
    found: list[UnixName | TcpAddress] = [UnixName(place["unix"])] if "unix" in place else []
    if "tcp" in place:
        found.append(TcpAddress(*place["tcp"]))
    return found


@pytest.mark.parametrize("machines", ["aaa", "abc"])
def test_strangers_while_the_last_rank_is_awaited(machines: str, caplog: pytest.LogCaptureFixture) -> None:
    """10 000 random frames and half-open connections at the listener of rank 1, before the last goes on."""
    generator = random.Random(9)
    silent: list[socket.socket] = []

    def flood(value: bytes) -> None:
        for place in places_of(value):
            for number in range(400):
                sock = connect(place, 10.0)
                try:
                    for _ in range(25):
                        sock.send(generator.randbytes(generator.randrange(1, 100)))
                except OSError:
                    pass
                sock.close()
                if number % 40 == 0:
                    silent.append(connect(place, 10.0))

    store = Watched("doors/1", flood)
    meetings = good(meet_all([Rank(process(machine)) for machine in machines], store, timeout=60.0))
    check_links(meetings)
    close(meetings)
    assert "refused a connection from" in caplog.text
    assert "more strangers" in caplog.text
    assert silent
    for sock in silent:
        sock.close()


def test_listeners_are_open_only_between_the_rounds() -> None:
    places: list[UnixName | TcpAddress] = []
    store = Watched("doors/1", lambda value: places.extend(places_of(value)))
    meetings = good(meet_all([Rank(process(machine)) for machine in "aab"], store))
    assert len(places) == 1
    for place in places:
        with pytest.raises(ConnectionRefusedError):
            connect(place, 5.0)
    close(meetings)


def test_torch_stores_fit() -> None:
    """Ranks meet again and again, each as soon as it can; nothing that they have written to meet stays there."""
    distributed = pytest.importorskip("torch.distributed")
    size, times = 3, 5

    def often(rank: int, store: Store) -> list[Meeting]:
        own = Rank()
        return [own.meet(store, rank, size) for _ in range(times)]

    for prefix in ("", "group/"):
        whole = distributed.HashStore()
        store = distributed.PrefixStore(prefix, whole) if prefix else whole
        each = good(in_threads([partial(often, rank, store) for rank in range(size)]))
        check_links([meetings[0] for meetings in each])
        for later in zip(*each, strict=True):
            assert len({meeting.channel for meeting in later}) == 1
        assert whole.num_keys() == 0
        for meetings in each:
            close(meetings)


def test_the_store_of_a_job_without_secret_carries_one() -> None:
    store = MemoryStore()
    close(meet_all([Rank(), Rank()], store))
    assert b'"secret": ""' not in store.get("paceline/all")
    store = MemoryStore()
    secret = secrets.token_bytes(16)
    close(meet_all([Rank(secret=secret), Rank(secret=secret)], store))
    assert b'"secret": ""' in store.get("paceline/all")


def test_settings_reach_the_choice_of_an_interface() -> None:
    wishes: dict[str, Any] = {"interface": "no-such-interface"}
    assert isinstance(settings(0, 1, **wishes), Settings)
    ranks = [Rank(process("a"), **wishes), Rank(process("b"))]
    expect_everywhere(ranks, "PACELINE_INTERFACE=no-such-interface fits", culprit=Culprit(0, "host", os.getpid()))


def test_a_retry_does_not_take_a_stale_record() -> None:
    """Rank 1 gave up in the first attempt; its record must not count in the second."""
    store = MemoryStore()
    ranks = [Rank(), Rank(), Rank()]
    for error in in_threads([partial(ranks[rank].meet, store, rank, 3, 0.3) for rank in (0, 1)]):
        assert "2/3 joined" in str(error)
    meetings = good(meet_all(ranks, store))
    check_links(meetings)
    close(meetings)


def test_records_of_processes_that_were_restarted_do_not_count() -> None:
    """torchrun's store outlives the ranks that it restarts; those that come first find what all had written."""
    store = MemoryStore()
    close(good(meet_all([Rank() for _ in range(3)], store)))
    before, ranks = store.get("paceline/0"), [Rank() for _ in range(3)]

    def late(rank: int) -> Meeting:
        deadline = Deadline(20.0)
        while store.get("paceline/0") == before:
            assert not deadline.passed
        return ranks[rank].meet(store, rank, 3, 20.0)

    first = partial(ranks[0].meet, store, 0, 3, 20.0)
    early = partial(ranks[1].meet, store, 1, 3, 20.0)  # before or after rank 0: it finds rank 0's record of before
    meetings = good(in_threads([early, first, partial(late, 2)]))
    assert {member.process for member in meetings[0].members} == {rank.process.name for rank in ranks}
    close(meetings)


def test_a_record_of_before_is_not_told_as_of_a_rank_that_came() -> None:
    store = MemoryStore()
    close(good(meet_all([Rank(), Rank()], store)))
    with pytest.raises(RendezvousError, match=r"^1/2 joined within 0.1 s, missing rank 1 \(joined: rank 0 on host\)"):
        Rank().meet(store, 0, 2, 0.1)
