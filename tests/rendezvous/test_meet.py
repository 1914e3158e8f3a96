"""Ranks meet, as threads that each have a process identity and an engine of their own."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import pickle
import random
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from rendezvous_fakes import FakeArena, FakeNative, good, in_threads, process, settings

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous import (
    Link,
    Meeting,
    Member,
    Process,
    assembly,
    bounded,
    descriptors,
    dial,
    failure,
    linking,
    meet,
)
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress, UnixName, connect
from paceline.rendezvous.link import CREATOR, RECEIVER
from paceline.rendezvous.listener import bind_tcp
from paceline.rendezvous.store import MemoryStore, Store
from paceline.rendezvous.store_client import StoreClient
from paceline.rendezvous.store_server import StoreServer
from paceline.settings.settings import Settings

TIMEOUT = 20.0


class Rank:
    """One process of a job, for several meetings."""

    def __init__(self, who: Process | None = None, native: FakeNative | None = None, **wishes: Any) -> None:
        self.process = who or process()
        self.native = native or FakeNative()
        self.wishes = wishes
        self.linked: set[str] = set()
        self.used: set[str] = set()

    def meet(self, store: Store | None, rank: int, size: int, timeout: float = TIMEOUT) -> Meeting:
        arena = FakeArena()
        meeting = meet(
            store,
            rank,
            size,
            timeout,
            process=self.process,
            settings=settings(rank, size, **self.wishes),
            native=self.native,
            arena=arena.descriptor,
            linked=self.linked,
            used=self.used,
        )
        self.linked |= {meeting.members[other].process for other in meeting.links}
        return meeting


def meet_all(ranks: Sequence[Rank], store: Store, timeout: float = TIMEOUT) -> list[Meeting | BaseException]:
    size = len(ranks)
    return in_threads([partial(rank.meet, store, index, size, timeout) for index, rank in enumerate(ranks)])


def close(meetings: Sequence[Any]) -> None:
    for meeting in meetings:
        if isinstance(meeting, Meeting):
            for link in meeting.links.values():
                link.close()


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


def open_descriptors() -> set[str]:
    return {fd.name for fd in Path("/proc/self/fd").iterdir()}


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


@pytest.mark.parametrize("missing", [0, 2])
def test_a_missing_rank_is_named(missing: int) -> None:
    store = MemoryStore()
    present = [rank for rank in range(4) if rank != missing]
    hosts = [Rank(process(host=f"node{rank}")) for rank in range(4)]
    errors = in_threads([partial(hosts[rank].meet, store, rank, 4, 1.0) for rank in present])
    for error in errors:
        assert isinstance(error, RendezvousError)
        assert f"3/4 joined within 1 s, missing rank {missing} " in str(error)
        assert all(f"rank {rank} on node{rank}" in str(error) for rank in present)
        assert (error.rank, error.host, error.pid, error.operation) == (missing, None, None, "rendezvous")


def test_several_missing_ranks_are_named() -> None:
    with pytest.raises(RendezvousError, match=r"1/4 joined within 0\.05 s, missing ranks 1, 2, 3") as caught:
        Rank().meet(MemoryStore(), 0, 4, 0.05)
    assert caught.value.culprit == NOBODY


def test_rank_0_says_that_it_lets_nobody_in_for_want_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """It misses the ranks that wait at its door, and they are not to blame."""

    def refused(*_: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket.socket, "accept", refused)
    door = bind_tcp("127.0.0.1", 0)
    door.listen()
    store = StoreServer([door], b"secret", 2)
    try:
        with socket.create_connection(door.getsockname()):
            with pytest.raises(
                RendezvousError, match=r"^rank 0 \(.*\): cannot let the other ranks in: .*ulimit"
            ) as caught:
                Rank().meet(store, 0, 2, 0.3)
            assert caught.value.rank == 0
    finally:
        store.close(Deadline(0.0))


def test_rank_0_without_descriptors_is_to_blame_whoever_serves_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    lack = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    monkeypatch.setattr(sys.modules[meet.__module__], "shortage", lambda: lack)
    with pytest.raises(RendezvousError, match=r"^rank 0 .* cannot let the other ranks in: .*ulimit") as caught:
        Rank().meet(MemoryStore(), 0, 2, 0.05)
    assert caught.value.rank == 0


def test_a_rank_that_has_no_descriptor_to_call_with_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    lack = OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def none_left(*_: object) -> socket.socket:
        raise lack

    monkeypatch.setattr(dial, "connect", none_left)
    monkeypatch.setattr(sys.modules[meet.__module__], "shortage", lambda: lack)
    errors = meet_all([Rank(), Rank()], MemoryStore(), 0.5)
    for error in errors:
        assert isinstance(error, RendezvousError)
        caller = re.match(r"rank (\d) .*: cannot reach rank (\d)", str(error))
        assert caller is not None and error.rank == int(caller[1]) != int(caller[2])


def test_whether_a_descriptor_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert descriptors.shortage() is None

    def none_free(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(descriptors.os, "open", none_free)
    found = descriptors.shortage()
    assert found is not None and found.errno == errno.EMFILE


def test_a_rank_that_got_in_after_all_is_no_want_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    accept, refusals = socket.socket.accept, [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

    def refused_once(door: socket.socket) -> tuple[socket.socket, object]:
        if refusals:
            raise refusals.pop()
        return accept(door)

    monkeypatch.setattr(socket.socket, "accept", refused_once)
    door = bind_tcp("127.0.0.1", 0)
    door.listen()
    store = StoreServer([door], b"secret", 3)
    try:
        client = StoreClient([TcpAddress(*door.getsockname())], b"secret", 1, 3, Deadline(TIMEOUT))
        with pytest.raises(RendezvousError, match=r"1/3 joined within 0\.3 s, missing ranks 1, 2"):
            Rank().meet(store, 0, 3, 0.3)
        client.close()
    finally:
        store.close(Deadline(0.0))


def expect_everywhere(ranks: Sequence[Rank], match: str, timeout: float = TIMEOUT, culprit: Culprit = NOBODY) -> None:
    for error in meet_all(ranks, MemoryStore(), timeout):
        assert type(error) is RendezvousError, error  # also where another rank's failure was heard of
        assert match in str(error)
        assert error.culprit == culprit
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.culprit, again.operation) == (str(error), culprit, "rendezvous")


@given(st.dictionaries(st.sampled_from(["error", "rank", "host", "pid"]), st.integers() | st.text() | st.none()))
def test_a_failure_that_another_rank_wrote_has_fields_of_their_types(value: dict[str, object]) -> None:
    error = failure.from_json(value)
    for field, kind in (("rank", int), ("host", str), ("pid", int)):
        found = getattr(error, field)
        assert found is None or type(found) is kind
    assert failure.from_json(failure.to_json(error)).culprit == error.culprit


def test_ranks_that_cannot_work_together_are_told_why() -> None:
    expect_everywhere([Rank(), Rank(process(version="2"))], "different versions of paceline")
    expect_everywhere([Rank(secret=b"s" * 16), Rank()], "PACELINE_SECRET is set on some ranks, but not on 1")
    expect_everywhere([Rank(process("m", "x")), Rank(process("m", "y"))], "PACELINE_MACHINE=m names different")
    expect_everywhere([Rank(compress="bf16"), Rank()], "PACELINE_COMPRESS must mean the same on all ranks, but is bf16")
    twin = process()
    expect_everywhere([Rank(twin), Rank(twin)], "one process joined as several ranks")


def test_ranks_that_disagree_on_the_size() -> None:
    store = MemoryStore()
    first, second = in_threads([partial(Rank().meet, store, 0, 2, 5.0), partial(Rank().meet, store, 1, 3, 5.0)])
    assert "disagree on how many they are" in str(first)
    assert "disagree on how many they are" in str(second)


def test_different_secrets_are_told_on_every_rank() -> None:
    ranks = [Rank(secret=b"s" * 16), Rank(secret=b"s" * 16), Rank(secret=b"t" * 16)]
    expect_everywhere(ranks, "the secrets differ")


def test_one_rank_that_cannot_listen_fails_all_with_its_reason() -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    port = sock.getsockname()[1]
    ranks = [Rank(process("a", host="node0"), ports=(port, port)), Rank(process("b")), Rank(process("b"))]
    who = f"rank 0 (host node0, pid {os.getpid()})"
    said = f"{who}: cannot listen on 127.0.0.1: the ports {port}-{port} (PACELINE_PORTS)"
    expect_everywhere(ranks, said, culprit=Culprit(0, "node0", os.getpid()))
    sock.close()


def test_a_rank_that_does_not_call_is_named_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 2 joins, says where it listens, and then hangs."""
    store = MemoryStore()
    release = threading.Event()
    hang = Rank(native=FakeNative())
    monkeypatch.setattr(hang.native, "create_link_memory", lambda: release.wait(TIMEOUT) and os.memfd_create("x"))
    calls = [partial(rank.meet, store, index, 3, 0.5) for index, rank in enumerate([Rank(), Rank()])]

    def late() -> Any:
        return hang.meet(store, 2, 3, 0.5)

    def others() -> Any:
        try:
            return in_threads(calls)
        finally:
            release.set()

    results, last = in_threads([others, late])
    assert isinstance(last, RendezvousError)
    for error in results:  # type: ignore[union-attr]
        assert "rank 2 (host host, pid" in str(error)
        assert "within 0.5 s" in str(error)
        assert error.culprit == Culprit(2, "host", os.getpid())


def test_who_is_not_called_says_where_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Any:
        release.wait(TIMEOUT)
        raise RendezvousError("enough")

    release = threading.Event()
    monkeypatch.setattr(linking, "_call", never)
    store, ranks = MemoryStore(), [Rank(process("a", host="node0")), Rank(process("b"))]

    def first() -> BaseException:
        try:
            ranks[0].meet(store, 0, 2, 0.5)
        except BaseException as error:
            return error
        finally:
            release.set()
        raise AssertionError("nobody called it")

    told = in_threads([first, partial(ranks[1].meet, store, 1, 2, TIMEOUT)])[0]
    assert type(told) is RendezvousError
    assert re.search(r"no connection within 0\.5 s from rank 1 .* to 127\.0\.0\.1:\d+$", str(told))
    assert told.rank == 1


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


def test_a_failing_store_leaves_nothing_open() -> None:
    class Broken(MemoryStore):
        def set(self, key: str, value: bytes) -> None:
            if "/doors" in key:
                raise OSError("the store is gone")
            super().set(key, value)

    for error in meet_all([Rank() for _ in range(3)], Broken(), timeout=0.5):
        assert isinstance(error, OSError | RendezvousError)


@given(st.binary(max_size=200))
@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_malformed_records_are_an_error_of_one_sentence(garbage: bytes) -> None:
    store = MemoryStore()
    store.set("paceline/1", garbage)
    with pytest.raises(RendezvousError, match=r"record of rank 1 in the store is malformed"):
        Rank().meet(store, 0, 2, 5.0)


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


@given(st.data())
@hypothesis_settings(max_examples=80)
def test_a_record_with_any_wrong_field_is_refused(data: st.DataObject) -> None:
    record = Rank().meet(None, 0, 1).members[0].to_json()
    assert str(Member.from_json(record, 0)).startswith("rank 0 (host ")
    field = data.draw(st.sampled_from(sorted(record)))
    junk = (
        st.none()
        | st.floats()
        | st.lists(st.integers())
        | st.integers(max_value=-1)
        | st.just("\n")
        | st.just("x" * 5000)
    )
    record[field] = data.draw(junk)
    with pytest.raises(RendezvousError, match="the record of rank 0 in the store is malformed"):
        Member.from_json(record, 0)


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


class Silent:
    """A store like torch's, whose requests take no deadline, and which answers nobody after some of them."""

    def __init__(self, answers: int) -> None:
        self.store, self.answers, self.over = MemoryStore(), answers, threading.Event()

    def set(self, key: str, value: bytes) -> None:
        self.asked()
        self.store.set(key, value)

    def get(self, key: str) -> bytes:
        self.asked()
        return self.store.get(key)

    def check(self, keys: list[str]) -> bool:
        self.asked()
        return self.store.check(keys)

    def asked(self) -> None:
        self.answers -= 1
        if self.answers < 0:
            self.over.wait()


@pytest.mark.parametrize("ranks", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("answers", [0, 1, 2, 5])
def test_a_store_that_falls_silent_is_named_at_the_limit(
    answers: int, ranks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "LAST_WORDS", 0.1)
    store = Silent(answers)
    try:
        for error in in_threads([partial(Rank().meet, store, rank, 2, 0.3) for rank in ranks]):
            assert isinstance(error, RendezvousError), error
            assert "the store that the ranks meet through does not answer within 0.3 s" in str(error)
    finally:
        store.over.set()
        for thread in threading.enumerate():
            if thread.name == "paceline-store":
                thread.join(TIMEOUT)


def test_ranks_say_that_a_store_is_silent_and_go_on_when_it_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "_SLICE", 0.05)
    store = Silent(2)

    def answers_then(record: logging.LogRecord) -> bool:
        if "the store that the ranks meet through does not answer" in record.getMessage():
            store.over.set()
        return True

    caplog.handler.addFilter(answers_then)
    ranks = [Rank(stall_seconds=0.1) for _ in range(2)]
    close(good(in_threads([partial(rank.meet, store, number, 2) for number, rank in enumerate(ranks)])))
    assert store.over.is_set()


GIVEN_UP = """
import threading, time
from paceline.errors import RendezvousError
from paceline.rendezvous.bounded import Answers
from paceline.rendezvous.deadline import Deadline

ending = threading.Event()
threading._register_atexit(ending.set)

def call():
    ending.wait()
    time.sleep(0.2)
    print("returned", flush=True)

try:
    Answers("the store", None).await_(call, Deadline(0.05))
except RendezvousError as error:
    print(error, flush=True)
"""


def test_a_call_that_was_given_up_returns_before_the_interpreter_ends() -> None:
    """Within torch that would abort the process."""
    done = subprocess.run([sys.executable, "-c", GIVEN_UP], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the store does not answer within 0.05 s")
    assert done.stdout.endswith("\nreturned\n")
