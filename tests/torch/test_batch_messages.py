"""The connections between the process that reads a machine's batches and its ranks."""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paceline.errors import Culprit
from paceline.torch.data.errors import absent, unshared
from paceline.torch.data.messages import Absent, Door, call

DEADLINE = 150.0


def unread(sock: int) -> int:
    """The bytes that the other end has not received yet."""
    (count,) = struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))
    return int(count)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_rank_that_is_slow_to_say_who_it_is_holds_nobody_up_and_is_admitted() -> None:
    door = Door()
    slow = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ThreadPoolExecutor(1) as pool:
        slow.connect(f"\0{door.name}")
        prompt = call(door.name, 2, DEADLINE)
        admitted = pool.submit(door.admit, (1, 2), DEADLINE)
        end = time.monotonic() + DEADLINE
        while unread(prompt.fileno()):
            assert time.monotonic() < end
            time.sleep(0.001)
        slow.send(json.dumps({"rank": 1}).encode())
        found = admitted.result(DEADLINE)
    assert sorted(found) == [1, 2]
    found[1].send({"welcome": True})
    assert slow.recv(1024) == b'{"welcome":true}'
    for one in (*found.values(), prompt, slow, door):
        one.close()


def test_strangers_are_turned_away_and_who_did_not_come_is_named() -> None:
    door = Door()
    strangers = [call(door.name, rank, DEADLINE) for rank in (0, 7)]
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    silent.connect(f"\0{door.name}")
    before = open_files()
    with pytest.raises(Absent) as caught:
        door.admit((1,), 0.1)
    assert caught.value.ranks == [1]
    assert open_files() == before
    for one in (*strangers, silent, door):
        one.close()


def test_errors_of_a_meeting_name_one_process_in_their_fields() -> None:
    one, other = Culprit(1, "alpha", 7), Culprit(2, "alpha", 8)
    for error in (absent([one], 5), unshared(one, "no memory")):
        assert (error.rank, error.host, error.pid) == one
        assert str(error).startswith("rank 1 (host alpha, pid 7) ")
    both = absent([one, other], 5)
    assert (both.rank, both.host, both.pid) == (None, None, None)
    assert "rank 1 (host alpha, pid 7), rank 2 (host alpha, pid 8) did not come" in str(both)
