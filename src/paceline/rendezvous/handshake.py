"""Mutual challenge and response: both ends prove that they know the job's secret, and neither reveals it.

    caller -> callee   hello: magic, protocol, role, the caller's ticket, the wanted ticket, nonce
    callee -> caller   answer: magic, protocol, verdict, nonce
    caller -> callee   proof of the caller
    callee -> caller   verdict, proof of the callee

A proof is HMAC-SHA256 over hello and the callee's nonce, under a label of its side, so that no message can be replayed,
reflected, or used on another connection. The caller proves first, so that a stranger that calls learns nothing. A
ticket is 16 random bytes that only members of the job know.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Callable
from enum import IntEnum

from paceline.rendezvous.conversation import Conversation, Receive, Send, Stranger

PROTOCOL = 6
"""The version of everything that two Paceline processes send each other."""

TICKET_BYTES = 16
_MAGIC = b"PACELINE"
_HELLO = struct.Struct("!HBx16s16s32s")
_ANSWER = struct.Struct("!8sHBx32s")
_CLOSING = struct.Struct("!B32s")
_NOTHING = bytes(32)


class Role(IntEnum):
    """The service to which a caller wants to connect."""

    LINK = 1
    STORE = 2


class Verdict(IntEnum):
    """The answer of a callee, as one byte on the wire."""

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
    """The callee is a Paceline process and refuses; the text is the reason."""


def new_ticket() -> bytes:
    """Return a ticket of TICKET_BYTES random bytes."""
    return secrets.token_bytes(TICKET_BYTES)


def call(key: bytes, role: Role, me: bytes, wanted: bytes) -> Conversation[None]:
    """Return the conversation of the caller's side.

    key: the job's secret. role: what the callee is for. me: the caller's ticket. wanted: the callee's ticket.
    It raises Refused if the callee refuses, and Stranger if the callee cannot authenticate.
    """
    nonce = secrets.token_bytes(32)
    hello = _HELLO.pack(PROTOCOL, role, me, wanted, nonce)
    yield Send(_MAGIC + hello)
    answer = yield Receive(_ANSWER.size)
    magic, protocol, verdict, its_nonce = _ANSWER.unpack(answer.data)
    if magic != _MAGIC:
        raise Stranger("it is not a Paceline process")
    _check_verdict(verdict, protocol)
    transcript = hello + its_nonce
    yield Send(_proof(key, b"caller", transcript))
    closing = yield Receive(_CLOSING.size)
    verdict, proof = _CLOSING.unpack(closing.data)
    _check_verdict(verdict, protocol)
    if not hmac.compare_digest(proof, _proof(key, b"callee", transcript)):
        raise Stranger("it could not prove that it knows the job's secret")


def answer(key: bytes, role: Role, known: Callable[[bytes, bytes], bool]) -> Conversation[bytes]:
    """Return the conversation of the callee's side, whose result is the caller's ticket.

    key: the job's secret. role: what this callee is for. known: takes the caller's and the wanted ticket, and returns
    whether to answer this caller at all. The conversation raises Stranger for a caller that fails.
    """
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
    transcript = hello.data + nonce
    proof = yield Receive(32)
    if not hmac.compare_digest(proof.data, _proof(key, b"caller", transcript)):
        yield Send(_CLOSING.pack(Verdict.SECRET, _NOTHING))
        raise Stranger("it does not know the job's secret")
    yield Send(_CLOSING.pack(Verdict.WELCOME, _proof(key, b"callee", transcript)))
    return bytes(caller)


def _proof(key: bytes, side: bytes, transcript: bytes) -> bytes:
    return hmac.digest(key, b"paceline " + side + b"\0" + transcript, "sha256")


def _check_verdict(verdict: int, protocol: int) -> None:
    if protocol != PROTOCOL:
        raise Refused(f"it speaks protocol {protocol}, this process {PROTOCOL}: install the same paceline everywhere")
    if verdict != Verdict.WELCOME:
        raise Refused(_MEANING.get(verdict, f"verdict {verdict}"))
