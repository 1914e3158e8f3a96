"""Mutual challenge and response: both ends prove that they know the job's secret, neither reveals it.

    caller -> callee   hello: magic, protocol, role, who I am, whom I want, nonce
    callee -> caller   answer: magic, protocol, verdict, nonce
    caller -> callee   proof of the caller
    callee -> caller   verdict, proof of the callee

A proof is HMAC-SHA256 over everything said before, under a label of its own side, so that nothing said can
be replayed, reflected, or used on another connection. The caller proves first: a stranger who calls learns
nothing. Who is a ticket of 16 random bytes that only members of the job know.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Callable
from enum import IntEnum

from paceline.rendezvous.conversation import Conversation, Receive, Send, Stranger

PROTOCOL = 3
"""Raised whenever anything that two Paceline processes say to each other changes."""

TICKET_BYTES = 16
_MAGIC = b"PACELINE"
_HELLO = struct.Struct("!HBx16s16s32s")
_ANSWER = struct.Struct("!8sHBx32s")
_CLOSING = struct.Struct("!B32s")
_NOTHING = bytes(32)


class Role(IntEnum):
    LINK = 1
    STORE = 2


class Verdict(IntEnum):
    WELCOME = 0
    PROTOCOL = 1
    UNKNOWN = 2
    SECRET = 3


_MEANING: dict[int, str] = {
    Verdict.PROTOCOL: "it speaks another protocol version",
    Verdict.UNKNOWN: "it does not expect this process",
    Verdict.SECRET: "the secrets differ: PACELINE_SECRET must be the same on all ranks, the port this job's",
}


class Refused(Exception):
    """The callee is a Paceline process and says no; the text is the reason."""


def new_ticket() -> bytes:
    return secrets.token_bytes(TICKET_BYTES)


def call(key: bytes, role: Role, me: bytes, wanted: bytes) -> Conversation[None]:
    """The caller's side. Raises Refused, or Stranger when the callee cannot prove itself."""
    nonce = secrets.token_bytes(32)
    hello = _HELLO.pack(PROTOCOL, role, me, wanted, nonce)
    yield Send(_MAGIC + hello)
    answer = yield Receive(_ANSWER.size)
    magic, protocol, verdict, its_nonce = _ANSWER.unpack(answer.data)
    if magic != _MAGIC:
        raise Stranger("it is not a Paceline process")
    _heed(verdict, protocol)
    said = hello + its_nonce
    yield Send(_proof(key, b"caller", said))
    closing = yield Receive(_CLOSING.size)
    verdict, proof = _CLOSING.unpack(closing.data)
    _heed(verdict, protocol)
    if not hmac.compare_digest(proof, _proof(key, b"callee", said)):
        raise Stranger("it could not prove that it knows the job's secret")


def answer(key: bytes, role: Role, known: Callable[[bytes, bytes], bool]) -> Conversation[bytes]:
    """The callee's side: returns the caller's ticket. `known(caller, wanted)` says whether to talk to it at all."""
    magic = yield Receive(len(_MAGIC))
    if magic.data != _MAGIC:
        raise Stranger("it does not speak Paceline's protocol")
    hello = yield Receive(_HELLO.size)
    protocol, its_role, caller, wanted, _ = _HELLO.unpack(hello.data)
    verdict = Verdict.WELCOME
    if protocol != PROTOCOL:
        verdict = Verdict.PROTOCOL
    elif its_role != role or not known(caller, wanted):
        verdict = Verdict.UNKNOWN
    nonce = secrets.token_bytes(32)
    yield Send(_ANSWER.pack(_MAGIC, PROTOCOL, verdict, nonce))
    if verdict is Verdict.PROTOCOL:
        raise Stranger(f"it speaks protocol {protocol}, this process {PROTOCOL}")
    if verdict is not Verdict.WELCOME:
        raise Stranger("it asked for somebody else")
    said = hello.data + nonce
    proof = yield Receive(32)
    if not hmac.compare_digest(proof.data, _proof(key, b"caller", said)):
        yield Send(_CLOSING.pack(Verdict.SECRET, _NOTHING))
        raise Stranger("it does not know the job's secret")
    yield Send(_CLOSING.pack(Verdict.WELCOME, _proof(key, b"callee", said)))
    return bytes(caller)


def _proof(key: bytes, side: bytes, said: bytes) -> bytes:
    return hmac.digest(key, b"paceline " + side + b"\0" + said, "sha256")


def _heed(verdict: int, protocol: int) -> None:
    if protocol != PROTOCOL:
        raise Refused(f"it speaks protocol {protocol}, this process {PROTOCOL}: install the same paceline everywhere")
    if verdict != Verdict.WELCOME:
        raise Refused(_MEANING.get(verdict, f"verdict {verdict}"))
