"""Ranks that cannot meet are told why, and whose fault it is."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
import threading
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from meeting_ranks import TIMEOUT, Rank, expect_everywhere, meet_all
from rendezvous_fakes import FakeNative, in_threads, process

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous import (
    Member,
    descriptors,
    dial,
    failure,
    linking,
    meet,
)
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress
from paceline.rendezvous.listener import bind_tcp
from paceline.rendezvous.store import MemoryStore
from paceline.rendezvous.store_client import StoreClient
from paceline.rendezvous.store_server import StoreServer


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
