"""The ranks of one system, alive for the whole run: they are started once, driven by orders, and idle in between."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from paceline.lab.lab import Lab
from paceline.launch import tree
from paceline.launch.job import Job
from paceline_bench import starting
from paceline_bench.ranks import wire
from paceline_bench.ranks.segments import Segments
from paceline_bench.ranks.wire import Closed, Lines, Message
from paceline_bench.systems import System

_LOG_LINES = 6
"""Lines of the ranks' stderr that an error message quotes."""
_POLL_SECONDS = 0.2
"""Seconds between two checks for ranks that died while they start."""
_STOP_SECONDS = 5.0
"""Seconds that the ranks have to end by themselves."""


class SessionFailed(Exception):
    """The system failed, died or did not answer in time; the text names it and quotes its last output."""


class Unsupported(Exception):
    """The system does not support the order; the text says what is missing."""


class Session:
    """The ranks of one system. Call each of `start`, `meet` and `begin` for all sessions in turn, so that start-ups
    overlap.

    home: the folder for the session's files. timeout: seconds that the start, or any single order, may take.
    """

    def __init__(self, system: System, ranks: int, home: Path, timeout: float) -> None:
        self.system = system
        self.ranks = ranks
        self.timeout = timeout
        self.about = system.label
        # The name is short because the addresses of Unix sockets, which the MPIs make below it too, hold 107 bytes.
        self._scratch = Path(tempfile.mkdtemp(prefix=f"{system.name}-", dir=home))
        self._listener: socket.socket | None = None
        self._members: list[Lines] = []
        self._pids: list[int] = []
        self._segments = Segments()
        self._formed = False
        self._job: Job | None = None
        self._hosts: list[str] = []

    def start(self, environ: Mapping[str, str], lab: Lab | None) -> None:
        """Start the processes on this machine or on those of a lab. Raises OSError if one cannot be started."""
        address = self._scratch / "s"
        self._listener = wire.listen(str(address), self.ranks)
        if lab is not None:
            self._hosts = [machine.host for machine in lab.machines for _ in machine.ranks]
        self._job = starting.job(self.system, self.ranks, address, self._scratch, environ, lab)
        self._job.start()

    def meet(self) -> None:
        """Wait until every rank has connected, then order all to load the system, without waiting for that.

        Raises SessionFailed.
        """
        assert self._listener is not None
        deadline = time.monotonic() + self.timeout
        self._listener.settimeout(_POLL_SECONDS)
        while len(self._members) < self.ranks:
            self._look_for_deaths()
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise self._failure(f"{len(self._members)} of {self.ranks} ranks started in time") from None
                continue
            connection.setblocking(True)
            connection.settimeout(self.timeout)
            self._members.append(Lines(connection))
        try:
            self._pids = [int(member.receive()["pid"]) for member in self._members]
        except (Closed, TimeoutError) as error:
            raise self._failure(f"a rank did not send its pid ({error})") from error
        self.send(do="start", adapter=self.system.adapter, options=self.system.options, timeout=self.timeout)

    def begin(self) -> None:
        """Wait until the process group has formed.

        Raises SessionFailed, also if ranks are on other machines than intended.
        """
        replies = self.receive("start")
        if sorted(reply["rank"] for reply in replies) != list(range(self.ranks)):
            raise self._failure(f"the ranks are {[reply['rank'] for reply in replies]}, not one group of {self.ranks}")
        pairs = sorted(zip(replies, self._members, strict=True), key=lambda pair: int(pair[0]["rank"]))
        self._members = [member for _, member in pairs]
        self._formed = True
        for rank, (host, (reply, _)) in enumerate(zip(self._hosts, pairs, strict=False)):
            if reply["host"] != host:
                raise self._failure(f"rank {rank} was started on {reply['host']}, not on {host}")
        self.about = str(replies[0]["about"])

    def ask(self, **order: object) -> list[Message]:
        """Give all ranks one order and return their answers by rank. Raises SessionFailed or Unsupported."""
        self._signal(signal.SIGCONT)
        self.send(**order)
        answers = self.receive(str(order["do"]))
        if order["do"] != "stop":
            self._signal(signal.SIGSTOP)
        return answers

    def stop(self, gently: bool = True) -> None:
        """End the ranks: by order if `gently`, then by force. None is left running, whatever happened before."""
        try:
            if gently and len(self._members) == self.ranks and self._job is not None:
                self.timeout = _STOP_SECONDS
                self.ask(do="stop")
                self._job.wait(timeout=_STOP_SECONDS)
        except (SessionFailed, Unsupported, TimeoutError):
            pass
        finally:
            self._signal(signal.SIGCONT)
            if self._job is not None:
                self._segments.note(process.pid for process in tree.members(self._job.mark, self._pids))
                self._job.terminate()
            self._segments.remove()
            for member in self._members:
                member.close()
            if self._listener is not None:
                self._listener.close()

    def send(self, **order: object) -> None:
        """Give all ranks one order; `receive` fetches the answers. Raises SessionFailed."""
        try:
            for member in self._members:
                member.send(order)
        except Closed as error:
            raise self._failure("a rank is gone") from error

    def receive(self, what: str) -> list[Message]:
        """Return the answers to the order `what`, by rank. Raises SessionFailed or Unsupported."""
        replies: dict[int, Message] = {}
        deadline = time.monotonic() + self.timeout
        with selectors.DefaultSelector() as selector:
            for rank, member in enumerate(self._members):
                selector.register(member, selectors.EVENT_READ, rank)
            while len(replies) < len(self._members):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    silent = sorted(set(range(self.ranks)) - set(replies))
                    raise self._failure(f"no answer to `{what}` within {self.timeout:g} s from ranks {silent}")
                for key, _ in ready:
                    replies[key.data] = reply = self._reply(key.data, what)
                    # Fail immediately, because the other ranks may be waiting for this one inside the system.
                    if "error" in reply:
                        raise self._failure(f"{self._name(key.data)} failed at `{what}`: {reply['error']}")
                    selector.unregister(key.fileobj)
        if what != "burst":  # MPIs make their files in the first calls, and all their ranks may end at once
            self._segments.note(self._pids)
        for reply in replies.values():
            if "unsupported" in reply:
                raise Unsupported(str(reply["unsupported"]))
        return [replies[rank] for rank in range(len(self._members))]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids if self.system.restless else ():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reply(self, rank: int, what: str) -> Message:
        try:
            return self._members[rank].receive()
        except (Closed, TimeoutError) as error:
            raise self._failure(f"{self._name(rank)} died at `{what}`") from error

    def _name(self, place: int) -> str:
        return f"rank {place}" if self._formed else f"the rank with pid {self._pids[place]}"

    def _look_for_deaths(self) -> None:
        if self._job is not None and self._job.poll() is not None:
            raise self._failure(str(self._job.failed or "the ranks ended before they connected"))

    def _failure(self, what: str) -> SessionFailed:
        lines: list[str] = []
        for file in sorted(self._scratch.glob("rank-*.err")):
            lines += file.read_text(errors="replace").splitlines()
        tail = [line for line in lines if line.strip()][-_LOG_LINES:]
        return SessionFailed("\n  ".join([f"{self.system.label}: {what}", *tail]))
