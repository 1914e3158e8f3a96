"""torch's store at a fixed address: the one of an earlier group is not taken for the next, and silence is named."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from paceline.errors import NOBODY, RendezvousError
from paceline.rendezvous.assembly import Assembly
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress
from paceline.rendezvous.listener import bind_tcp
from paceline.torch.first_store import store_at
from paceline.torch.store_server import server_of

SECONDS = 60.0


def free_place() -> TcpAddress:
    with bind_tcp("127.0.0.1", 0) as sock:
        return TcpAddress("127.0.0.1", int(sock.getsockname()[1]))


@pytest.mark.parametrize("ended", [False, True], ids=["goes on", "ends"])
def test_a_store_of_an_earlier_group_is_not_taken_for_the_next(ended: bool, caplog: pytest.LogCaptureFixture) -> None:
    place = free_place()
    first = store_at(place, 0, 2, SECONDS, None)
    first.set("group", "first")
    before = store_at(place, 1, 2, SECONDS, None)
    assert before.get("group") == b"first"
    waits = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(store_at, place, 1, 2, SECONDS, 0.05)
        while "rank 0 has yet to call init_process_group again" not in caplog.text:
            assert not found.done() and not waits.wait(0.01)
        if ended:
            del first, before
        second = store_at(place, 0, 2, SECONDS, None)
        second.set("group", "second")
        assert found.result(SECONDS).get("group") == b"second"


def test_who_listens_and_says_nothing_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = TcpAddress(*server.getsockname())
        with pytest.raises(RendezvousError, match=rf"^torch's store, {place}, does not answer within 0.3 s") as caught:
            store_at(place, 1, 2, 0.3, None)
        assert caught.value.rank == 0


def test_who_does_not_listen_is_named() -> None:
    with pytest.raises(RendezvousError, match="cannot reach torch's store of rank 0") as caught:
        store_at(free_place(), 1, 2, 0.3, None)
    assert caught.value.rank == 0


def test_a_group_whose_store_ends_with_rank_0_names_it() -> None:
    """Both as the store of a later group, and where a launcher serves the store."""
    place = free_place()
    served = store_at(place, 0, 2, SECONDS, None)
    assert served.timeout.total_seconds() > SECONDS / 2  # for what is asked of it later
    assert server_of(dist.PrefixStore("later", store_at(place, 1, 2, SECONDS, None))).rank == 0
    assert server_of(dist.PrefixStore("later", served)).rank == 0
    assert server_of(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)) == NOBODY
    for server in (server_of(served), NOBODY):
        assembly = Assembly(BrokenStore(), 1, 2, Deadline(SECONDS), server=server)  # type: ignore[arg-type]
        with pytest.raises(RendezvousError, match="failed: reset by peer") as caught:
            assembly.gather("host", {"host": "here"})
        assert caught.value.rank == server.rank


class BrokenStore:
    def within(self, deadline: Deadline) -> BrokenStore:
        return self

    def set(self, key: str, value: bytes) -> None:
        raise ConnectionResetError("reset by peer")
