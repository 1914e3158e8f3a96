"""The raw face's store: rank 0 serves it, the others find it, strangers do not get in."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from rendezvous_fakes import good, in_threads, settings

from paceline.errors import RendezvousError
from paceline.rendezvous import dial, open_store, store_server
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress, UnixName, connect
from paceline.rendezvous.interfaces import Candidate
from paceline.rendezvous.listener import bind_tcp
from paceline.rendezvous.store import (
    LONGEST_VALUE,
    REQUEST,
    MemoryStore,
    OwnStore,
    store_endpoints,
    store_key,
)
from paceline.rendezvous.store_client import StoreClient
from paceline.rendezvous.store_server import StoreServer
from paceline.settings.settings import Settings

SECRET = b"correct horse battery staple"


def free_port() -> int:
    with bind_tcp("127.0.0.1", 0) as sock:
        return int(sock.getsockname()[1])


def unix_job() -> dict[str, Any]:
    return {"job": secrets.token_hex(8)}


def tcp_job() -> dict[str, Any]:
    return {"master_address": "127.0.0.1", "store_ports": (free_port(),), "secret": SECRET}


def job_settings(rank: int, size: int, **job: Any) -> Settings:
    return settings(rank, size, local_size=size if "master_address" not in job else None, **job)


def every_rank(size: int, job: dict[str, Any], use: Callable[[OwnStore, int], Any], timeout: float = 20.0) -> list[Any]:
    def rank(index: int) -> Any:
        store = open_store(job_settings(index, size, **job), timeout)
        try:
            result = use(store, index)
            store.set(f"done/{index}", b"")
            for other in range(size):
                poll(store, f"done/{other}")
            return result
        finally:
            store.close(Deadline(timeout))

    return in_threads([partial(rank, index) for index in range(size)])


def poll(store: OwnStore, key: str) -> bytes:
    deadline = Deadline(20.0)
    while not store.check([key]):
        assert not deadline.passed
    return store.get(key)


@pytest.mark.parametrize("job", [unix_job, tcp_job])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_everybody_sees_what_everybody_wrote(job: Callable[[], dict[str, Any]], size: int) -> None:
    def use(store: OwnStore, rank: int) -> list[bytes]:
        store.set(f"value/{rank}", bytes([rank]) * 100)
        return [poll(store, f"value/{other}") for other in range(size)]

    assert good(every_rank(size, job(), use)) == [[bytes([other]) * 100 for other in range(size)]] * size


def test_a_missing_key_is_missing() -> None:
    def use(store: OwnStore, rank: int) -> bool:
        with pytest.raises(RendezvousError, match="nothing"):
            store.get("nothing")
        return store.check(["nothing"])

    assert good(every_rank(2, unix_job(), use)) == [False, False]


def test_values_are_bounded() -> None:
    def use(store: OwnStore, rank: int) -> None:
        store.set("large", bytes(LONGEST_VALUE))
        assert len(store.get("large")) == LONGEST_VALUE
        with pytest.raises(RendezvousError):
            store.set("larger", bytes(LONGEST_VALUE + 1))
        with pytest.raises(RendezvousError):
            store.set("k" * 300, b"")

    good(every_rank(2, unix_job(), use))


def test_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "MOST_KEYS", 3)
    store = MemoryStore()
    for key in "abca":
        store.set(key, b"")
    with pytest.raises(RendezvousError, match="no room"):
        store.set("d", b"")


def test_clients_may_come_before_the_server() -> None:
    job = tcp_job()
    client_dials = threading.Event()

    def client() -> None:
        client_dials.set()
        store = open_store(job_settings(1, 2, **job), 20.0)
        store.set("hello", b"1")
        store.close()

    def server() -> bytes:
        client_dials.wait(10.0)
        store = open_store(job_settings(0, 2, **job), 20.0)
        value = poll(store, "hello")
        store.close()
        return value

    assert good(in_threads([client, server]))[1] == b"1"


def test_nobody_there_is_told_from_refused() -> None:
    with pytest.raises(RendezvousError, match=r"the store of rank 0 from this machine within 0.05 s: .*nobody there"):
        open_store(job_settings(1, 2, **unix_job()), 0.05)
    job = tcp_job()
    there = rf"127\.0\.0\.1:{job['store_ports'][0]}"
    with pytest.raises(RendezvousError, match=rf"from 127\.0\.0\.1 within.* {there}: refused"):
        open_store(job_settings(1, 2, **job), 0.05)


def test_a_name_that_does_not_resolve_is_told() -> None:
    job = {**tcp_job(), "master_address": "no-such-host.invalid"}
    with pytest.raises(RendezvousError, match=r"DNS: the name no-such-host\.invalid does not resolve"):
        open_store(job_settings(1, 2, **job), 0.05)


def test_silence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full answers like a firewall: not at all."""
    job = tcp_job()
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", job["store_ports"][0]))
        deaf.listen(0)
        with socket.create_connection(deaf.getsockname()), pytest.raises(RendezvousError, match="filtered"):
            open_store(job_settings(1, 2, **job), 0.3)


def test_a_wrong_secret_is_refused_at_once() -> None:
    job = tcp_job()
    server = open_store(job_settings(0, 2, **job), 20.0)
    with pytest.raises(RendezvousError, match="refused by the process there: the secrets differ"):
        open_store(job_settings(1, 2, **{**job, "secret": b"x" * 32}), 20.0)
    server.close(Deadline(0.0))
    assert isinstance(server, StoreServer)
    assert server.refused == 1


def test_without_a_secret_it_works_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    job = {**tcp_job(), "secret": None}
    with caplog.at_level(logging.WARNING):
        good(every_rank(3, job, lambda store, rank: store.set(str(rank), b"")))
    assert caplog.text.count("PACELINE_SECRET is not set") == 1


def test_another_jobs_store_on_a_derived_port_is_passed_by() -> None:
    ports = (free_port(), free_port())
    other = StoreServer([bind_tcp("127.0.0.1", ports[0])], b"another job's key", 2)
    job = {"master_address": "127.0.0.1", "store_ports": ports, "secret": None, "job": "mine"}
    values = every_rank(2, job, lambda store, rank: (store.set(str(rank), b""), poll(store, str(1 - rank)))[1])
    assert good(values) == [b"", b""]
    other.close(Deadline(0.0))


def test_ranks_that_disagree_are_told() -> None:
    job = unix_job()
    server = open_store(job_settings(0, 3, **job), 20.0)
    first = open_store(job_settings(1, 3, **job), 20.0)
    with pytest.raises(RendezvousError, match="another process is rank 1 already"):
        open_store(job_settings(1, 3, **job), 5.0)
    with pytest.raises(RendezvousError, match="rank 3 says that there are 4 ranks, rank 0 says 3"):
        open_store(job_settings(3, 4, **job), 5.0)
    first.close()
    server.close(Deadline(0.0))


def test_a_rank_that_left_waits_for_the_next_store() -> None:
    """Two programs in one launch: a fast rank starts the second while rank 0 still serves the first."""
    job = unix_job()
    first = open_store(job_settings(0, 3, **job), 20.0)
    open_store(job_settings(1, 3, **job), 20.0).close()

    def second_program() -> None:
        store = open_store(job_settings(1, 2, **job), 20.0)
        store.set("second", b"")
        store.close()

    def rank_0() -> None:
        open_store(job_settings(2, 3, **job), 20.0).close()
        first.close()
        assert not first.check(["second"])
        store = open_store(job_settings(0, 2, **job), 20.0)
        poll(store, "second")
        store.close()

    good(in_threads([second_program, rank_0]))


def test_a_client_that_dies_does_not_keep_the_server() -> None:
    job = unix_job()
    server = open_store(job_settings(0, 2, **job), 20.0)
    client = open_store(job_settings(1, 2, **job), 20.0)
    assert isinstance(client, StoreClient)
    client._sock.close()
    deadline = Deadline(60.0)
    server.close(deadline)
    assert not deadline.passed


def test_a_lost_server_is_named() -> None:
    job = unix_job()
    server = open_store(job_settings(0, 2, **job), 20.0)
    client = open_store(job_settings(1, 2, **job), 20.0)
    server.close(Deadline(0.0))
    with pytest.raises(RendezvousError, match="lost the store of rank 0") as raised:
        client.set("a", b"")
    assert raised.value.rank == 0
    client.close()
    client.close()


def test_garbage_after_the_handshake_harms_nobody() -> None:
    """A member with a broken version of the protocol."""
    job = unix_job()
    server = open_store(job_settings(0, 3, **job), 20.0)
    broken = open_store(job_settings(1, 3, **job), 20.0)
    assert isinstance(broken, StoreClient)
    broken._sock.setblocking(True)
    broken._sock.sendall(b"\xff" * REQUEST.size)
    assert broken._sock.recv(1) == b""
    other = open_store(job_settings(2, 3, **job), 20.0)
    other.set("a", b"b")
    assert server.get("a") == b"b"
    broken.close()
    other.close()
    server.close()


def test_strangers_while_it_waits() -> None:
    job = tcp_job()
    server = open_store(job_settings(0, 2, **job), 20.0)
    address = store_endpoints(job_settings(0, 2, **job))[0]
    for _ in range(100):
        with connect(address, 10.0) as sock:
            sock.send(os.urandom(100))
    with connect(address, 10.0):
        client = open_store(job_settings(1, 2, **job), 20.0)
        client.set("a", b"")
        client.close()
        server.close()
    assert isinstance(server, StoreServer)
    assert server.refused >= 100


def test_another_users_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    job = unix_job()
    server = open_store(job_settings(0, 2, **job), 20.0)
    monkeypatch.setattr("paceline.rendezvous.store_client.peer_credentials", lambda sock: (1, os.geteuid() + 1, 1))
    with pytest.raises(RendezvousError, match="it runs as user"):
        open_store(job_settings(1, 2, **job), 20.0)
    monkeypatch.undo()
    monkeypatch.setattr("paceline.rendezvous.store_server.peer_credentials", lambda sock: (1, os.geteuid() + 1, 1))
    with pytest.raises(RendezvousError, match="hung up"):
        open_store(job_settings(1, 2, **job), 0.1)
    server.close(Deadline(0.0))


def test_where_the_store_is() -> None:
    here = settings(0, 4, local_size=4, job="j")
    assert isinstance(store_endpoints(here)[0], UnixName)
    assert store_endpoints(here) != store_endpoints(settings(0, 4, local_size=4, job="k"))
    by_launcher = settings(0, 4, local_size=4, job="", rank_variable="PMI_RANK")
    assert store_endpoints(by_launcher) == store_endpoints(by_launcher)
    away = settings(0, 4, master_address="n1", store_ports=(5, 6))
    assert store_endpoints(away) == [TcpAddress("n1", 5), TcpAddress("n1", 6)]
    with pytest.raises(RendezvousError, match="set MASTER_ADDR and MASTER_PORT on every rank"):
        store_endpoints(settings(0, 4, job=""))
    assert store_key(here) != store_key(settings(0, 4, job="k"))
    assert store_key(settings(0, 4, secret=SECRET)) == SECRET


def test_rank_0_listens_on_its_own_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian: a machine's own name resolves to 127.0.1.1 at home, and to the network's address elsewhere."""
    monkeypatch.setattr(store_server, "resolve", lambda host, seconds: ["127.0.1.1"])
    monkeypatch.setattr("paceline.rendezvous.interfaces.source_address", lambda host: "127.0.0.1")
    names = [candidate.address for candidate in store_server.interfaces.addresses() if not candidate.loopback]
    if not names:
        pytest.skip("this machine has loopback only")
    found = store_server.bind_addresses("myself", settings(0, 2))
    assert found[0] in names
    assert found[1:] == ["127.0.1.1"]
    assert store_server.bind_addresses("127.0.1.1", settings(0, 2)) == ["127.0.1.1"]


def test_a_resolver_without_a_server_does_not_lengthen_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes much longer to say so than the rank has."""
    answer = threading.Event()

    def ask(*arguments: Any, **more: Any) -> Any:
        answer.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    job = {"job": "j", "master_address": "somewhere.invalid", "store_ports": (4711,), "secret": SECRET}
    monkeypatch.setattr(dial.socket, "getaddrinfo", ask)
    with pytest.raises(RendezvousError) as caught:
        open_store(settings(1, 2, **job), 0.2)
    assert not answer.is_set()
    answer.set()
    for lookup in (thread for thread in threading.enumerate() if thread.name == "paceline-lookup"):
        lookup.join()
    assert str(caught.value) == (
        f"cannot reach the store of rank 0 from {socket.gethostname()} within 0.2 s: somewhere.invalid:4711: "
        "DNS: the name somewhere.invalid does not resolve (the resolver does not answer)"
    )


def test_rank_0_listens_where_the_others_call_whatever_interface_the_data_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates = [Candidate("eth0", "10.0.0.1", "10.0.0.0/8"), Candidate("ib0", "192.168.0.1", "192.168.0.0/16")]
    monkeypatch.setattr(store_server.interfaces, "addresses", lambda: candidates)
    monkeypatch.setattr(store_server, "resolve", lambda host, seconds: ["10.0.0.1"] if host == "master" else [])
    wish = settings(0, 2, interface="ib0")
    assert store_server.bind_addresses("master", wish) == ["10.0.0.1"]
    assert store_server.bind_addresses("a name of a proxy", wish) == ["192.168.0.1"]


def test_a_rank_that_never_came_is_not_waited_for_long() -> None:
    job = unix_job()
    server = open_store(job_settings(0, 3, **job), 20.0)
    client = open_store(job_settings(1, 3, **job), 20.0)
    client.close()
    deadline = Deadline(60.0)
    server.close(deadline)
    assert not deadline.passed


def test_a_server_that_falls_silent_is_named_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    job = unix_job()
    server = open_store(job_settings(0, 2, **job), 20.0)
    client = open_store(job_settings(1, 2, **job), 20.0)
    monkeypatch.setattr(server, "check", lambda keys: over.wait())
    try:
        words = r"^lost the store of rank 0: it does not answer within 0.3 s; did rank 0 fail\?$"
        with pytest.raises(RendezvousError, match=words) as raised:
            client.within(Deadline(0.3)).check(["key"])
        assert raised.value.rank == 0
        over.set()
        with pytest.raises(RendezvousError, match=words):  # and not what answers the request of before
            client.set("key", b"")
        client.close()
    finally:
        over.set()
        server.close(Deadline(0.0))
