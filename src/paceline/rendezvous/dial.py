"""Connect to another process, with retries until a deadline, and say precisely what is wrong when that fails."""

from __future__ import annotations

import errno
import ipaddress
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.host_name import host_name
from paceline.rendezvous.congestion import avoid_bbr
from paceline.rendezvous.conversation import PATIENCE, Conversation, HungUp, Silent, Stranger, converse
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.handshake import Refused
from paceline.rendezvous.keepalive import keep_alive
from paceline.rendezvous.reminder import Reminder

log = logging.getLogger("paceline.rendezvous")

T = TypeVar("T")

_ATTEMPT = 3.0
"""Seconds of one attempt. The kernel repeats a dropped SYN after 1 s; a new attempt may then take another route."""
_TELLING = 1.0
"""Seconds of silence below which an attempt that the deadline cut short means nothing."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25
"""Seconds between attempts."""
LOOKUP = 3.0
"""Seconds that a name may take to resolve; a resolver that reaches no server takes 10 to 30 s to report that."""


@dataclass(frozen=True, slots=True)
class UnixName:
    """The name of a Unix socket in the abstract namespace.

    Only processes of this network namespace see it, it ends with its owner, and it is never on disk.
    """

    name: str

    def __str__(self) -> str:
        return f"unix @{self.name}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host (name or address) and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Endpoint = UnixName | TcpAddress


def unix_address(name: UnixName) -> str:
    """Return the address of a Unix socket as `socket.connect` and `socket.bind` take it."""
    return "\0" + name.name


def connect(endpoint: Endpoint, timeout: float, source: str | None = None) -> socket.socket:
    """Return a socket that one attempt of at most `timeout` seconds has connected; it has a timeout.

    source: the local address to call from, None for the system's choice. Raises OSError; gaierror for a name that does
    not resolve.
    """
    if isinstance(endpoint, UnixName):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(unix_address(endpoint))
        except BaseException:
            sock.close()
            raise
        return sock
    sock = _connect_tcp(endpoint, timeout, source)
    if sock.getsockname() == sock.getpeername():  # TCP can connect to itself on an ephemeral port without a listener
        sock.close()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(sock)
    return sock


def _connect_tcp(to: TcpAddress, timeout: float, source: str | None) -> socket.socket:
    """Connect to the first address of the host that answers; raise the error of the last one if none does."""
    trouble = OSError(f"{to.host} has no address")
    for family, kind, protocol, _, address in _look_up(to.host, to.port, timeout):
        sock = socket.socket(family, kind, protocol)
        try:
            avoid_bbr(sock)
            sock.settimeout(timeout)
            if source:
                sock.bind((source, 0))
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            trouble = error
        except BaseException:
            sock.close()
            raise
    raise trouble


class _Unanswered(socket.gaierror):
    """The resolver does not answer."""


def _look_up(host: str, port: int | None, seconds: float) -> list[tuple[Any, ...]]:
    """Call `socket.getaddrinfo` with a time limit, which it does not have. Raises gaierror."""
    answers: SimpleQueue[list[tuple[Any, ...]] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except Exception as error:
            answers.put(error)

    if _is_address(host):
        ask()
    else:
        threading.Thread(target=ask, name="paceline-lookup", daemon=True).start()
    try:
        answer = answers.get(timeout=max(0.0, seconds))
    except Empty:
        raise _Unanswered(socket.EAI_AGAIN, "the resolver does not answer") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def explain(error: Exception, endpoint: Endpoint) -> str:
    """Return what went wrong with `endpoint`: its name, a refusal, silence, the route, or the process there."""
    if isinstance(error, socket.gaierror) and isinstance(endpoint, TcpAddress):
        return f"DNS: the name {endpoint.host} does not resolve ({error.strerror})"
    if isinstance(error, ConnectionRefusedError):
        if isinstance(endpoint, UnixName):
            return "nobody there: no process of this network namespace listens on it"
        return f"refused: nobody listens on port {endpoint.port} of {endpoint.host}"
    if isinstance(error, TimeoutError):
        return "no answer: filtered by a firewall, or the host is down"
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no route: {error.strerror}"
    if isinstance(error, Refused):
        return f"refused by the process there: {error}"
    if isinstance(error, (Stranger, HungUp)):
        return f"something else listens there: {error}" if isinstance(error, Stranger) else f"connected: {error}"
    return f"{type(error).__name__}: {error}"


def reach(
    endpoints: Sequence[Endpoint],
    conversation: Callable[[socket.socket], Conversation[T]],
    deadline: Deadline,
    *,
    who: str,
    culprit: Culprit = NOBODY,
    source: str | None = None,
    check: Callable[[], None] = lambda: None,
    refusal: float = math.inf,
    reminder: Reminder | None = None,
) -> tuple[T, socket.socket]:
    """Hold the conversation with the first of `endpoints` that completes it, with retries until the deadline.

    Return its result and the socket, which is non-blocking and the caller's to close. A process that answers has 5 s to
    authenticate, since another program may hold that port.
    conversation: makes the conversation for a socket. who: names the wanted process in messages. culprit: the wanted
    rank, for an error. source: the local address to call from. check: is called between attempts, and may raise.
    refusal: after this many seconds of nothing but refused connections, the process is given up as gone. reminder:
    reports meanwhile what is wrong.
    Raises RendezvousError with both endpoints and the cause.
    """
    pause = _FIRST_PAUSE
    troubles: dict[Endpoint, str] = {}
    refused_since: Deadline | None = None
    while True:
        for endpoint in endpoints:
            begin = time.monotonic()
            sock: socket.socket | None = None
            try:
                sock = connect(endpoint, max(0.01, min(_ATTEMPT, deadline.remaining())), source)
                return converse(sock, conversation(sock), deadline, PATIENCE), sock
            except (OSError, HungUp, Stranger, Refused) as error:
                cut_short = (
                    isinstance(error, TimeoutError | Silent | _Unanswered) and time.monotonic() - begin < _TELLING
                )
                if endpoint not in troubles or not cut_short:
                    troubles[endpoint] = f"{endpoint}: {explain(error, endpoint)}"
                if sock is not None:
                    sock.close()
                if not isinstance(error, ConnectionRefusedError):
                    refused_since = None
                elif refused_since is None:
                    refused_since = Deadline(refusal)
                gone = refused_since is not None and refused_since.passed
                here = host_name() if isinstance(error, socket.gaierror) else source
                problem = partial(_unreached, who, here, endpoint, troubles)
                if deadline.passed or gone or (isinstance(error, Refused) and len(endpoints) == 1):
                    limit = f" within {deadline.seconds:g} s" if deadline.passed else ""
                    # Where one refuses the other, nobody knows which of them is wrong.
                    blamed = NOBODY if isinstance(error, Refused | Stranger) else culprit
                    raise RendezvousError(problem(limit), blamed) from None
                if reminder is not None:
                    reminder.check(problem)
            except BaseException:
                if sock is not None:
                    sock.close()
                raise
        check()
        time.sleep(min(pause, deadline.remaining()))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _unreached(
    who: str, source: str | None, endpoint: Endpoint, troubles: Mapping[Endpoint, str], within: str = ""
) -> str:
    here = source or _source_towards(endpoint)
    return f"cannot reach {who} from {here}{within}: {'; '.join(troubles.values())}"


def wait_for_name(host: str, deadline: Deadline, reminder: Reminder) -> None:
    """Wait until the name `host` resolves on this machine. Raises RendezvousError at the deadline."""
    problem = f"DNS: the name {host} of rank 0 does not resolve on its own machine"
    while not resolve(host, min(LOOKUP, deadline.remaining())):
        if deadline.passed:
            raise RendezvousError(f"{problem} within {deadline.seconds:g} s", Culprit(0))
        reminder.check(lambda: problem)
        time.sleep(min(_LONGEST_PAUSE, deadline.remaining()))


def resolve(host: str, seconds: float = LOOKUP) -> list[str]:
    """Return the addresses of a host name (or address), IPv4 first; none if it does not resolve within `seconds`."""
    try:
        found = _look_up(host, None, seconds)
    except (OSError, UnicodeError):
        return []
    known = (socket.AF_INET, socket.AF_INET6)
    ordered = sorted((entry for entry in found if entry[0] in known), key=lambda entry: known.index(entry[0]))
    return list(dict.fromkeys(str(entry[4][0]) for entry in ordered))


def source_address(host: str) -> str | None:
    """Return the local address from which packets to `host` leave; None without a route or such a name.

    It sends nothing to `host`.
    """
    for address in resolve(host):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def _source_towards(endpoint: Endpoint) -> str:
    if isinstance(endpoint, UnixName):
        return "this machine"
    return source_address(endpoint.host) or f"{host_name()} (no route)"
