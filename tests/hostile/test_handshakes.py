"""Genuine conversations that are recorded, replayed, changed and cut: whoever belongs there gets in, or is told why."""

from __future__ import annotations

import re
import secrets
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hostile import ANSWER, CALL, Address, Meddling, Middlebox, say
from played import Play

from paceline.errors import RendezvousError
from paceline.rendezvous import dial
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress
from paceline.rendezvous.listener import listen_tcp
from paceline.rendezvous.store import JOIN
from paceline.rendezvous.store_client import StoreClient
from paceline.rendezvous.store_server import StoreServer

KEY = secrets.token_bytes(32)
SECONDS = 20.0
HELLO, PROOF = 8 + 68, 32
"""Bytes that a caller says, in two parts."""
CHALLENGE, CLOSING = 44, 33
"""Bytes that it hears in return."""
UNUSED = 11
"""The byte of the challenge that means nothing."""
JOINED = 5
"""Bytes that the store answers to who joins."""


class Served:
    """A store of rank 0 of 2, and a middlebox before it."""

    def __init__(self, *meddling: Meddling) -> None:
        door, at = listen_tcp("127.0.0.1", None)
        self.server = StoreServer([door], KEY, 2)
        self.at: Address = at.host, at.port
        self.box = Middlebox(self.at, *meddling)

    def join(self) -> StoreClient:
        return StoreClient([TcpAddress(*self.box.address)], KEY, 1, 2, Deadline(SECONDS))

    def close(self) -> None:
        self.box.close()
        self.server.close(Deadline(0.0))


def outcome(served: Served) -> str | None:
    """What a rank that joins is told, None if it gets in."""
    try:
        served.join().close()
    except RendezvousError as error:
        return str(error)
    return None


def everywhere(lengths: dict[str, int], cut: bool) -> list[Meddling]:
    return [Meddling(way, at, cut) for way, length in lengths.items() for at in range(length)]


def test_a_connection_that_is_cut_before_the_rank_has_joined_is_made_again() -> None:
    """Wherever it is cut; also when the store has let the rank in, which does not know it yet."""
    lengths = {CALL: HELLO + PROOF + JOIN.size, ANSWER: CHALLENGE + CLOSING + JOINED}
    for meddling in everywhere(lengths, cut=True):
        with closing(Served(meddling)) as served, closing(served.join()) as store:
            store.set("here", b"1")
            assert store.get("here") == b"1"
            assert len(served.box.passed) == 2


def test_a_rank_that_loses_the_store_later_says_so() -> None:
    with (
        closing(Served(Meddling(CALL, HELLO + PROOF + JOIN.size + 3))) as served,
        closing(served.join()) as store,
        pytest.raises(RendezvousError, match=r"lost the store of rank 0: it hung up; did rank 0 fail\?"),
    ):
        store.set("here", b"1")


def test_a_changed_byte_is_noticed() -> None:
    """The rank joins by another connection, or is told why not."""
    refused = 0
    for meddling in everywhere({CALL: HELLO + PROOF, ANSWER: CHALLENGE + CLOSING}, cut=False):
        if meddling == Meddling(ANSWER, UNUSED, cut=False):
            continue
        with closing(Served(meddling)) as served:
            told = outcome(served)
            if told is None:
                assert len(served.box.passed) == 2, meddling
            else:
                assert "cannot reach the store of rank 0 from 127.0.0.1: 127.0.0.1:" in told, meddling
                assert "refused by the process there: " in told, meddling
                refused += 1
    assert refused >= HELLO - 8 + PROOF  # whatever the caller says after the magic word


def torment(door: Address, genuine: bytes) -> None:
    """Say what a rank said at this door: as it was, with each of its bytes changed, and cut short before each."""
    assert len(say(door, genuine)) == CHALLENGE + CLOSING  # a new challenge, and that the proof is wrong
    for at in range(len(genuine)):
        heard = say(door, genuine[:at] + bytes([genuine[at] ^ 1]) + genuine[at + 1 :])
        assert len(heard) in (0, CHALLENGE, CHALLENGE + CLOSING)
        assert len(say(door, genuine[:at])) in (0, CHALLENGE)


def test_what_was_recorded_opens_no_door(tmp_path: Path) -> None:
    """Neither the store's nor a rank's, which still listens when the genuine caller is linked."""
    with Play(3, tmp_path) as play, ExitStack() as stack:
        play.start(0)
        play.await_store()
        box = stack.enter_context(closing(Middlebox(play.store)))
        play.start(1, store=box.address)
        last = play.start(2, "--hold")
        door = last.door()
        torment(play.store, bytes(box.passed[0].call[: HELLO + PROOF]))
        box = stack.enter_context(closing(Middlebox(door)))
        last.say(f"{box.address[0]} {box.address[1]}")
        last.door()
        torment(door, bytes(box.passed[0].call[: HELLO + PROOF]))
        last.say()
        play.everybody("met")
        play.finish()
        assert len(box.passed) == 1
        for rank in (0, 1):
            assert len(play.ranks[rank].log()) < 20
            assert "does not know the job's secret" in "\n".join(play.ranks[rank].log())


@pytest.mark.parametrize("at", [0, CHALLENGE, CHALLENGE + CLOSING - 1])
def test_a_rank_that_does_not_know_that_it_is_linked_calls_again(at: int, tmp_path: Path) -> None:
    """The last answer is lost on the way, when the other side counts it as linked."""
    with Play(2, tmp_path) as play:
        play.start(0)
        caller = play.start(1, "--hold")
        with closing(Middlebox(caller.door(), Meddling(ANSWER, at))) as box:
            caller.say(f"{box.address[0]} {box.address[1]}")
            play.everybody("met")
            play.finish()
        assert len(box.passed) == 2


def test_a_wrong_secret_is_named_and_the_right_one_still_gets_in(tmp_path: Path) -> None:
    with Play(2, tmp_path) as play:
        play.start(0)
        kind, message = play.start(1, PACELINE_SECRET="a secret of another job").error()
        assert kind == "RendezvousError"
        assert "the secrets differ: PACELINE_SECRET must be the same on all ranks" in message
        play.start(1)
        play.everybody("met")
        play.finish()
        assert "does not know the job's secret" in "\n".join(play.ranks[0].log())


def test_a_silent_program_that_holds_the_first_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ranks derive the ports of the store, rank 0 takes the next one, and the others find it there."""
    monkeypatch.setattr(dial, "PATIENCE", 0.2)
    door, at = listen_tcp("127.0.0.1", None)
    with socket.create_server(("127.0.0.1", 0)) as silent, closing(StoreServer([door], KEY, 2)):
        taken = TcpAddress("127.0.0.1", silent.getsockname()[1])
        StoreClient([taken, at], KEY, 1, 2, Deadline(SECONDS)).close()


@pytest.mark.parametrize(
    ("meddling", "reason"),
    [
        (Meddling(ANSWER, 100_000), ""),
        (Meddling(CALL, HELLO + PROOF, cut=False), r"rank 1 \(host [^)]*\) sent rank 0 \(host [^)]*\) a garbled frame"),
    ],
    ids=["cut", "garbled"],
)
def test_a_link_that_breaks_during_training_is_named_on_both_ends(
    meddling: Meddling, reason: str, tmp_path: Path
) -> None:
    unmeasured = {"PACELINE_ALGORITHM": "ring"}  # links are used first when they are measured, while ranks meet
    with Play(2, tmp_path) as play:
        play.start(0, **unmeasured)
        caller = play.start(1, "--hold", **unmeasured)
        with closing(Middlebox(caller.door(), meddling)) as box:
            caller.say(f"{box.address[0]} {box.address[1]}")
            play.everybody("met")
            told = [rank.error() for rank in play.ranks.values()]
    assert [kind for kind, _ in told] == ["PeerLost"] * 2
    assert "rank 1 (host " in told[0][1] and re.search(reason, told[0][1])
    assert "rank 0 (host " in told[1][1] and re.search(reason, told[1][1])
