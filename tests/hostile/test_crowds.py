"""Strangers in numbers, at every listener of a job: it meets and trains, and neither its memory nor its log grows."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import psutil
import pytest
from hostile import Address, Flood, crowd
from played import Play, Played, listens

from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.listener import listen_tcp
from paceline.rendezvous.store_client import StoreClient
from paceline.rendezvous.store_server import SharedStore

Attack = Callable[[Address], AbstractContextManager[object]]
CROWD = 200
SECONDS = 20.0
MOST_GROWTH = 48 << 20
"""Bytes that strangers may cost the ranks."""
MOST_LINES = 40
"""That a rank writes whatever happens: ten for each listener, a summary of the rest, and who is waited for."""


def hello(protocol: int) -> bytes:
    """What a caller says first, with random tickets and nonce."""
    return b"PACELINE" + struct.pack("!HBx", protocol, 1) + secrets.token_bytes(64)


VERSIONS = [hello(protocol) for protocol in range(0, 1 << 16, 257)]
STRANGE = [
    b"",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"PACELINE",
    hello(3)[:-1],
    hello(3) + bytes(32),
    hello(3) + secrets.token_bytes(100_000),
    secrets.token_bytes(4096),
]


def memory(ranks: list[Played]) -> int:
    """Bytes that these processes have now."""
    return sum(psutil.Process(rank.pid).memory_info().rss for rank in ranks)


def flood(words: list[bytes]) -> Attack:
    @contextmanager
    def attack(address: Address) -> Iterator[None]:
        with closing(Flood(address, words)) as flooding:
            flooding.wait_for(len(words))
            yield

    return attack


ATTACKS: dict[str, Attack] = {
    "idle": lambda address: crowd(address, CROWD),
    "bytewise": lambda address: crowd(address, CROWD, hello(3) + bytes(32)),
    "every version": flood(VERSIONS),
    "nonsense": flood(STRANGE * 25),
}


@pytest.mark.parametrize(
    ("attack", "descriptors"), [*((name, 1024) for name in ATTACKS), ("idle", 64), ("every version", 64)]
)
def test_a_job_meets_and_trains(attack: str, descriptors: int, tmp_path: Path) -> None:
    strangers, limit = ATTACKS[attack], f"--descriptors={descriptors}"
    with Play(3, tmp_path) as play:
        ranks = [play.start(0, limit)]
        play.await_store()
        ranks.append(play.start(1, limit))
        doors = [play.store]
        with strangers(play.store):
            last = play.start(2, limit, "--hold")
            for _ in ranks:
                doors.append(last.door())
                before = memory(ranks)
                with strangers(doors[-1]):
                    last.say()
                    assert memory(ranks) - before < MOST_GROWTH
            play.everybody("met")
        assert not any(map(listens, doors))
        play.finish()
        for rank in play.ranks.values():
            assert len(rank.log()) <= MOST_LINES


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_store_that_stays_open_goes_on_serving(attack: Attack) -> None:
    """An elastic job's driver listens as long as the job trains."""
    key = secrets.token_bytes(32)
    door, at = listen_tcp("127.0.0.1", None)
    with (
        closing(SharedStore([door], key)),
        closing(StoreClient([at], key, 1, 2, Deadline(SECONDS))) as client,
        attack((at.host, at.port)),
    ):
        client.set("step", b"1")
        with closing(StoreClient([at], key, 2, 2, Deadline(SECONDS))) as newcomer:
            assert newcomer.get("step") == b"1"
