"""The process group that torch sees."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from paceline import _engine
from paceline.errors import NOBODY, Culprit
from paceline.process.current import runtime
from paceline.rendezvous import Member
from paceline.rendezvous.dial import TcpAddress
from paceline.runtime.runtime import Runtime
from paceline.settings.limits import Limits
from paceline.settings.names import AUTO
from paceline.topology.discover import Placement
from paceline.torch import timeouts
from paceline.torch.backend_object import BackendObject
from paceline.torch.backward import BackwardWaits
from paceline.torch.builtin_hooks import follow_builtin_hooks
from paceline.torch.compat import Base
from paceline.torch.freed_memory import Returning
from paceline.torch.futures import read_quietly
from paceline.torch.interop import use_interop_threads
from paceline.torch.movements import Movements
from paceline.torch.name import NAME
from paceline.torch.opaque import opaque
from paceline.torch.optimizers import follow_optimizers
from paceline.torch.reductions import Reductions
from paceline.torch.store_server import server_of
from paceline.version import VERSION

_log = logging.getLogger("paceline")
_announced = False
_alive: set[PacelineProcessGroup] = set()
"""Groups from their making to their shutdown; of a group that torch wraps for debugging, it keeps only the C++ half."""


@opaque
class PacelineProcessGroup(Reductions, Movements, BackendObject, Base):  # type: ignore[misc]
    """All ranks of one torch process group.

    `store` is torch's rendezvous store for this group, `rank` and `size` are the group's own, `name` is torch's name of
    the group. Making one is a collective: it returns when all ranks have met, within `limits.meeting` seconds.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        limits: Limits,
        name: str = "",
        native: _engine.Group | None = None,
        parent: PacelineProcessGroup | None = None,
        ranks: Sequence[int] = (),
    ) -> None:
        """native: the engine's group, if the ranks have met already.

        parent: a group in which these ranks have met, and have the numbers `ranks`.
        """
        super().__init__(rank, size)
        process = runtime()
        self._store = store
        self._rank = rank
        self._size = size
        self._limits = limits
        self._name = name
        self._description = "undefined"
        self._window = None
        self._splits = 0
        self._runtime = process
        self._notify = process.notify
        self._group = native or process.group(
            store,  # type: ignore[arg-type]  # its stub knows no bytes
            rank,
            size,
            limits.operation,
            meeting=limits.meeting,
            place=_place(store),
            server=server_of(store) if parent is None else parent._server,
            members=[] if parent is None else [parent._members[rank] for rank in ranks],
        )
        self._members: tuple[Member, ...] = process.membership(self._group.channel).members
        self._server: Culprit = NOBODY if parent is None else parent._server
        if parent is None and server_of(store).rank == 0:
            self._server = self._members[0].culprit
        self._twins: dict[str, _engine.Group] = {}
        self._siblings: list[PacelineProcessGroup] = []
        self._siblings_made = 0
        self._returning = Returning()
        self._backward = BackwardWaits(process.annotations.outside)
        follow_optimizers()
        follow_builtin_hooks()
        read_quietly()
        if process.settings.interop_threads is not None:
            use_interop_threads(process.settings.interop_threads)
        self._open = True
        _alive.add(self)
        if rank == 0:
            _announce(process, self._group.channel, _place(store))

    # -- life -------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Leave the group; no operation can be started on it afterwards."""
        if self._open:
            self._open = False
            _alive.discard(self)
            with ExitStack() as last:
                for sibling in self._siblings:
                    last.callback(sibling.shutdown)
                if self._inner is not None:
                    last.callback(self._inner.shutdown)
                for group in (*self._twins.values(), self._group):
                    last.callback(self._runtime.forget, group.channel)
                    last.callback(group.close)
                if self._device is not None:
                    last.callback(self._device.close)

    @property
    def encoding_of_parameters(self) -> tuple[int, int]:
        """The codec of parameters that are broadcast, `lossless` or none, and from how many bytes on."""
        return self._runtime.exact(self._group.channel)

    @property
    def placement(self) -> Placement:
        """The network between the ranks of this group, as it is known now."""
        return self._runtime.placement(self._group.channel)

    @property
    def machines(self) -> list[int]:
        """The machine of every rank of this group, by the lowest rank on it."""
        return self._runtime.membership(self._group.channel).machines

    def abort(self) -> None:
        """Make every unfinished and later operation raise `Aborted`, here and on all other members."""
        for group in (self._group, *self._twins.values()):
            group.abort(f"rank {self._rank} called abort")
        for sibling in self._siblings:
            sibling.abort()
        if self._inner is not None:
            self._inner.abort()

    def set_timeout(self, timeout: timedelta) -> None:
        """Let operations that begin from now on take this long at most."""
        self._limits = replace(self._limits, operation=timeout.total_seconds())
        self._group.set_timeout(self._limits.operation)
        for sibling in self._siblings:
            sibling.set_timeout(timeout)

    setTimeout = _set_default_timeout = set_timeout

    # -- subgroups --------------------------------------------------------------------------------------------

    def split_group(
        self,
        new_ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: object = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: object = None,
    ) -> PacelineProcessGroup | None:
        """A group of the ranks `new_ranks` of this group; None on the others. Every member of this group must call it.

        Raises RendezvousError if the members do not meet in time.
        """
        self._splits += 1
        name = group_name or f"{self._name}:split:{self._splits}"
        if self._rank not in new_ranks:
            return None
        first = min(new_ranks)
        store = dist.PrefixStore(f"{name}/{first}/", self._store)
        given = self._limits if timeout is None else timeouts.limits(self._runtime.settings, timeout)
        rank = list(new_ranks).index(self._rank)
        group = PacelineProcessGroup(store, rank, len(new_ranks), given, name, parent=self, ranks=new_ranks)
        group._description = group_desc or f"{self._description}:split:{self._splits}"
        return group

    splitGroup = split_group

    def sibling(self) -> PacelineProcessGroup:
        """A group of the same ranks whose collectives are in no order with this one's, and which ends with it at last.

        Every member of this group must call it, equally often; they need not meet. torch's functions do not know it.
        """
        self._siblings = [one for one in self._siblings if one._open]
        self._siblings_made += 1
        name = f"{self._name}:sibling:{self._siblings_made}"
        native = self._subgroup(name)
        if self._runtime.settings.compress == AUTO and not self._runtime.membership(native.channel).one_machine:
            native.set_codec(*self._runtime.encoding(self._group))
        store = dist.PrefixStore(f"{name}/", self._store)
        group = PacelineProcessGroup(store, self._rank, self._size, self._limits, name, native)
        group._description = self._description
        self._siblings.append(group)
        return group

    def eager_connect_single_device(self, device: object = None) -> None:
        """Do nothing, because the ranks have met already."""

    def perform_nocolor_split(self, device: object = None) -> None:
        """Do nothing, because only the members of a new group take part in making it."""

    def _twin(self, purpose: str) -> _engine.Group:
        if purpose not in self._twins:
            self._twins[purpose] = self._subgroup(purpose)
        return self._twins[purpose]

    def _subgroup(self, purpose: str) -> _engine.Group:
        digest = hashlib.sha256(f"{purpose} of {self._group.channel}".encode()).digest()
        channel = int.from_bytes(digest[:8], "big") >> 1
        return self._runtime.subgroup(self._group.channel, range(self._size), channel, self._limits.operation)

    # -- names and numbers ------------------------------------------------------------------------------------

    def getBackendName(self) -> str:
        """The name under which torch knows this backend."""
        return NAME

    name = _get_backend_name = getBackendName

    def getRank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def getSize(self) -> int:
        """The number of ranks in the group."""
        return self._size

    def setGroupName(self, name: str) -> None:
        """Set torch's name of the group."""
        self._name = name

    def getGroupName(self) -> str:
        """Torch's name of the group."""
        return self._name

    def setGroupDesc(self, description: str) -> None:
        """Set torch's description of the group."""
        self._description = description

    def getGroupDesc(self) -> str:
        """Torch's description of the group."""
        return self._description

    def _get_sequence_number_for_group(self) -> int:
        return int(self._group.sequence)

    getSequenceNumberForGroup = _get_sequence_number_for_group

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing, because the engine counts from the making of the group."""

    @property
    def options(self) -> c10d.Backend.Options:
        """The options of a backend as torch sees them: its name and its timeout."""
        options = c10d.Backend.Options(NAME, timedelta(seconds=self._limits.operation))
        options.group_name = self._name  # type: ignore[assignment]  # a str with a name
        return options

    @property
    def _device_types(self) -> list[torch.device]:
        kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        return [torch.device(kind) for kind in kinds]

    def _get_backend(self, device: torch.device) -> c10d.Backend:
        if device.type == "cpu":
            return self  # type: ignore[return-value]  # torch takes a whole group, too
        return self._accelerator_group(device)._get_backend(device)


def everybody() -> PacelineProcessGroup | None:
    """Paceline's side of the group of all ranks; None before it was made, and where that is another backend's."""
    found: object = dist.group.WORLD if dist.is_initialized() else None
    return found if isinstance(found, PacelineProcessGroup) else None


def refuse_forked() -> None:
    """Raise CommunicationError where a group would be made by groups that a forked child inherited.

    Once it has destroyed these, such a child can be a rank of a job of its own.
    """
    if dist.is_initialized():
        for group in _alive:
            group._runtime.refuse_forked()


def _place(store: dist.Store) -> str:
    """The place of torch's store, in words; "" if it has no address."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return f"torch's store, {TcpAddress(store.host, store.port)}" if isinstance(store, dist.TCPStore) else ""


def _announce(process: Runtime, channel: int, place: str) -> None:
    """Log once in a process what runs here, and warn if strangers could join."""
    global _announced
    if _announced:
        return
    _announced = True
    _log.info("paceline %s on torch %s", VERSION, torch.__version__)
    if process.settings.secret is None and not process.membership(channel).one_machine:
        _log.warning(
            "PACELINE_SECRET is not set: any process that reaches %s can read there what proves to be of this job. "
            "Set it to the same random text on every rank.",
            place or "the store that the ranks met through",
        )


def paceline_group(group: dist.ProcessGroup | None) -> PacelineProcessGroup:
    """Paceline's side of a process group, None for all ranks. Raises TypeError if it is another backend's."""
    found: object = dist.group.WORLD if group is None else group
    if isinstance(found, PacelineProcessGroup):
        return found
    raise TypeError(f"codecs need a process group of Paceline, found one of {dist.get_backend(group)}")
