"""The handshake without any socket: two generators that talk to each other, strangers that talk to one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from paceline.rendezvous import handshake
from paceline.rendezvous.conversation import Conversation, Receive, Received, Send, Stranger
from paceline.rendezvous.handshake import Refused, Role, answer, call, new_ticket

KEY = b"k" * 32
ME, YOU = new_ticket(), new_ticket()


class Side:
    """One end of a conversation, fed by hand."""

    def __init__(self, conversation: Conversation[Any]) -> None:
        self.conversation = conversation
        self.said = b""
        self.done, self.result = False, None
        self.wanted: int | None = None
        self._resume(None)

    def hear(self, data: bytes) -> bytes:
        """Feed as much as it wants; what is left over."""
        while self.wanted is not None and len(data) >= self.wanted:
            head, data = data[: self.wanted], data[self.wanted :]
            self._resume(Received(head))
        return data

    def _resume(self, received: Received | None) -> None:
        self.wanted = None
        try:
            step = next(self.conversation) if received is None else self.conversation.send(received)
            while isinstance(step, Send):
                self.said += step.data
                step = self.conversation.send(Received())
            assert isinstance(step, Receive)
            self.wanted = step.size
        except StopIteration as stop:
            self.done, self.result = True, stop.value


def talk(caller: Side, callee: Side) -> None:
    """Carry what each says to the other until both are silent."""
    to_caller = to_callee = b""
    while caller.said or callee.said:
        to_callee, caller.said = to_callee + caller.said, b""
        to_caller, callee.said = to_caller + callee.said, b""
        to_callee, to_caller = callee.hear(to_callee), caller.hear(to_caller)


def calling(key: bytes = KEY, role: Role = Role.LINK) -> Side:
    return Side(call(key, role, ME, YOU))


def answering(key: bytes = KEY, role: Role = Role.LINK, known: bool = True) -> Side:
    return Side(answer(key, role, lambda caller, wanted: known and (caller, wanted) == (ME, YOU)))


def test_both_prove_themselves() -> None:
    caller, callee = calling(), answering()
    talk(caller, callee)
    assert caller.done
    assert callee.result == ME


def test_a_wrong_secret_is_refused_by_the_callee_and_told_to_the_caller() -> None:
    caller, callee = calling(key=b"x" * 32), answering()
    with pytest.raises(Stranger, match="does not know the job's secret"):
        talk(caller, callee)
    with pytest.raises(Refused, match="PACELINE_SECRET"):
        caller.hear(callee.said)


def test_a_callee_without_the_secret_is_found_out() -> None:
    caller, callee = calling(), answering()
    callee.hear(caller.said)
    caller.said = b""
    caller.hear(callee.said)
    with pytest.raises(Stranger, match="could not prove"):
        caller.hear(bytes(33))


def test_an_unexpected_caller_is_refused() -> None:
    for callee in (answering(known=False), answering(role=Role.STORE)):
        caller = calling()
        with pytest.raises(Stranger, match="somebody else"):
            talk(caller, callee)
        with pytest.raises(Refused, match="does not expect"):
            caller.hear(callee.said)


def test_another_protocol_version_is_one_clear_sentence_on_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "PROTOCOL", 9)
    caller = calling()
    monkeypatch.undo()
    callee = answering()
    with pytest.raises(Stranger, match="it speaks protocol 9, this process 6"):
        callee.hear(caller.said)
    monkeypatch.setattr(handshake, "PROTOCOL", 9)
    with pytest.raises(Refused, match="it speaks protocol 6, this process 9: install the same paceline"):
        caller.hear(callee.said)


def test_replayed_bytes_prove_nothing() -> None:
    """Everything that a successful caller said, said again to the same callee."""
    caller, callee = calling(), answering()
    recorded = caller.said
    callee.hear(caller.said)
    caller.said = b""
    caller.hear(callee.said)
    recorded += caller.said
    callee.said = b""
    callee.hear(caller.said)
    assert callee.done

    with pytest.raises(Stranger, match="does not know the job's secret"):
        answering().hear(recorded)


def test_a_proof_cannot_be_reflected() -> None:
    """A stranger who sends the callee's own answers back to it learns no proof."""
    callee = answering()
    callee.hear(calling().said)
    with pytest.raises(Stranger):
        callee.hear(callee.said[-32:])


@given(st.binary(max_size=300))
def test_random_bytes_never_pass(data: bytes) -> None:
    callee = answering()
    try:
        callee.hear(data)
    except Stranger:
        return
    assert not callee.done


@given(st.binary(max_size=300), st.integers(0, 200))
@hypothesis_settings(max_examples=100)
def test_bytes_that_begin_well_never_pass(data: bytes, kept: int) -> None:
    callee = answering()
    try:
        callee.hear(calling().said[:kept] + data)
    except Stranger:
        return
    assert not callee.done


@given(st.binary(max_size=300))
def test_random_answers_never_satisfy_a_caller(data: bytes) -> None:
    caller = calling()
    try:
        caller.hear(data)
    except (Stranger, Refused):
        return
    assert not caller.done
