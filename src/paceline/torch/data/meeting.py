"""The meeting of a loader's ranks: they find out who shares a machine, and get the memory for their batches."""

from __future__ import annotations

import os
from dataclasses import dataclass

from paceline.errors import Culprit
from paceline.rendezvous.machine import Machine
from paceline.torch.data.errors import absent, lost, unshared
from paceline.torch.data.messages import Absent, Door, Endpoint, Gone, call, pair
from paceline.torch.data.peers import Peers
from paceline.torch.data.pool import Pool
from paceline.torch.data.reader import Reader
from paceline.torch.data.receiver import Receiver
from paceline.torch.data.slots import Slots
from paceline.torch.data.source import Division


@dataclass
class Hosted:
    """The parts that only the rank which reads for its machine has."""

    reader: Reader
    slots: Slots
    pool: Pool


@dataclass
class Place:
    """A rank's place among those that get batches.

    division: the order of the ranks, and those here. hosted: None unless this process reads. ahead: the most batches
    that are under way on any machine.
    """

    division: Division
    receiver: Receiver
    hosted: Hosted | None
    ahead: int

    @property
    def one_machine(self) -> bool:
        """True if all ranks share memory."""
        return len(self.division.here) == len(self.division.order)

    def close(self) -> None:
        """Read no more, and receive no more."""
        if self.hosted is not None:
            self.hosted.reader.close()
            self.hosted.slots.close()
        self.receiver.close()


def meet(peers: Peers, machine: Machine, ahead: int, timeout: float, cpus: tuple[int, ...]) -> Place:
    """Return this rank's place; all ranks call it. The first rank of a machine is the one that reads.

    ahead: batches that may be under way on this machine. timeout: seconds for the meeting, and for each batch later.
    cpus: those that a reading thread may use, empty for all.
    Raises CommunicationError on all ranks if one cannot share memory.
    """
    me = [f"{machine.name} {machine.place} {os.geteuid()}"[:600], machine.host[:64], os.getpid(), ahead]
    told = peers.gather(me)
    names = [one[0] for one in told]
    order = sorted(range(peers.size), key=lambda rank: (names.index(names[rank]), rank))
    here = tuple(rank for rank in order if names[rank] == names[peers.rank])
    processes = [Culprit(rank, one[1], one[2]) for rank, one in enumerate(told)]
    reader = here[0]
    try:
        mine = (Slots(), Door()) if peers.rank == reader else None
        answer = [mine[1].name if mine else "", ""]
    except (OSError, MemoryError) as error:
        mine, answer = None, ["", f"{type(error).__name__}: {error}"[:500]]
    answers = peers.gather(answer)
    for rank, (_, wrong) in enumerate(answers):
        if wrong:
            raise unshared(processes[rank], wrong)
    hosted = None
    if mine is not None:
        try:
            hosted, endpoint = _host(*mine, here, timeout, cpus)
        except Absent as error:
            raise absent([processes[rank] for rank in error.ranks], timeout) from None
    else:
        endpoint = _reach(answers[reader][0], peers.rank, processes[reader], timeout)
    memory = _memory(endpoint, processes[reader], timeout)
    receiver = Receiver(endpoint, memory, processes[reader], timeout)
    return Place(Division(tuple(order), here), receiver, hosted, max(one[3] for one in told))


def _host(
    slots: Slots, door: Door, here: tuple[int, ...], timeout: float, cpus: tuple[int, ...]
) -> tuple[Hosted, Endpoint]:
    try:
        ranks = door.admit(here[1:], timeout)
    finally:
        door.close()
    ranks[here[0]], own = pair()
    for endpoint in ranks.values():
        endpoint.send({"welcome": True}, [slots.descriptor])
    pool = Pool()
    return Hosted(Reader(slots, pool, ranks, cpus), slots, pool), own


def _reach(door: str, rank: int, reading: Culprit, timeout: float) -> Endpoint:
    try:
        return call(door, rank, timeout)
    except (OSError, Gone) as error:
        raise lost(reading, f"cannot be reached: {error}") from None


def _memory(endpoint: Endpoint, reading: Culprit, timeout: float) -> Slots:
    try:
        _, descriptors = endpoint.receive(timeout)
    except (TimeoutError, Gone, ValueError) as error:
        raise lost(reading, f"gave no memory for them: {error}") from None
    if len(descriptors) != 1:
        raise lost(reading, "gave no memory for them")
    return Slots(descriptors[0])
