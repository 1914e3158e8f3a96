"""The C++ engine. It knows no framework; every call that may wait releases the GIL.

Addresses are those of contiguous memory that stays alive until the operation is done, counts are elements, dtypes and
reductions are the numbers in `DTYPES` and `OPS`, modes are BLOCKING, ASYNC and NOTIFY.
"""

from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

DTYPES: dict[str, int]
MOVED_DTYPES: dict[str, int]
PARTS: int
PERHAPS_PARTS: int
OPS: dict[str, int]
SIZES: list[int]
"""Bytes of an element, by dtype."""
CODECS: dict[str, int]
CODEC_BLOCK: int
"""Elements that are encoded together, and apart from all others."""
FUNCTIONS: dict[str, int]
"""Addresses for benchmarks: `Kernels::reduce` as this CPU has it, `encode` and `decode`."""
LARGE_CALL: int
"""Bytes, see `Group.count_large`."""
BLOCKING: int
ASYNC: int
NOTIFY: int

Event = tuple[int, int, int, str, str, str, int, str, str, int, int, int, str]
Wait = tuple[int, float, float, int, str, list[tuple[str, str, str, float]]]
WireReduce = tuple[int, int, int, int, Sequence[int], int]
Spans = Sequence[tuple[int, int]]  # address and elements of a block for every rank
PlanEntry = tuple[int, str, bool, int, int, Sequence[Sequence[WireReduce]]]

class CommunicationError(RuntimeError):
    """The base of what Paceline raises on purpose. What is not known is None.

    rank, host, pid: of the one rank that is to blame, its number that of the job. operation: what failed here, in
    words. tensor: its name, where the caller gave it one. group: the numbers in the job of the ranks of its group.
    """

    rank: int | None
    host: str | None
    pid: int | None
    operation: str | None
    tensor: str | None
    group: tuple[int, ...] | None

class PeerLost(CommunicationError): ...
class Mismatch(CommunicationError): ...
class Timeout(CommunicationError): ...
class Aborted(CommunicationError): ...

def cache_blocks() -> dict[str, int]:
    """Bytes of this machine's `first` and `second` level cache, of the `pass` in which one rank combines, and of the
    `block` that ranks hand to each other in a large all-reduce."""

def create_link_memory() -> int: ...
def probe_address() -> int: ...
def can_read(pid: int, address: int) -> bool: ...
def allow_reads() -> None: ...
def current_frames() -> dict[int, FrameType]:
    """`sys._current_frames()`, safe where CPython 3.11 may stop for good."""

def hear_ending_signals(signals: Sequence[int], seconds: int) -> int:
    """Hear those of these signals that end this process by default, before they do.

    Returns a descriptor from which eight bytes can be read once one has come, its number as an integer of the machine;
    -1 if this process hears them already. The process ends by that signal with `end_by`, or after `seconds`; further
    ones do nothing until then. Signals that the program handles, now or later, are left alone. Raises OSError.
    """

def stop_hearing_ending_signals() -> None: ...
def end_by(signal: int) -> None:
    """End this process as the signal does by default; return where that does nothing."""

def isa() -> str: ...
def look(array: object, writable: bool, /) -> tuple[int, int, int] | None:
    """Address, count and dtype of contiguous memory; None if `array` does not show any of a known type."""

def look_in_capsule(capsule: object, /) -> tuple[int, int, int] | None:
    """The same for what `__dlpack__` has returned, of whatever device; it stays in the capsule's hands."""

def supports(dtype: int, op: int) -> bool: ...
def tensors_reader(
    tensor: type[T], failure: type, otherwise: Callable[[object], list[T]]
) -> Callable[[object], list[T]]:
    """A function that reads a list of `tensor`, or the `results` of a `failure`, and runs no Python meanwhile.

    It calls a failure's `read`, which must not be Python either, before it takes the results. It leaves other values,
    and failures that have no results or whose `read` raises, to `otherwise`.
    """

def encodes(codec: int, dtype: int) -> bool: ...
def encoded_bound(codec: int, dtype: int, elements: int) -> int:
    """Bytes that encoded elements take at the most. Raises ValueError if the codec does not take the dtype, as all
    functions here do that take both."""

def encode(codec: int, dtype: int, in_: int, elements: int, out: int) -> int:
    """Encode to `out`, where `encoded_bound` bytes fit, and return the bytes written."""

def encode_with_residual(codec: int, in_: int, residual: int, elements: int, out: int) -> int:
    """Encode float32 `in_` + `residual`, and leave in `residual` what that lost."""

def decode(codec: int, dtype: int, in_: int, bytes: int, out: int, elements: int) -> bool:
    """Decode exactly `elements`; False if `bytes` bytes at `in_` are no encoding of so many."""

def decode_and_add(codec: int, dtype: int, in_: int, bytes: int, out: int, elements: int) -> bool:
    """The same, but add to what `out` holds."""

class CollectiveCall:
    """A collective, or a message, as this rank calls it. What it does not use keeps its default.

    collective: its name. source: what this rank brings; 0: what is in `target`. target: where what comes belongs.
    count: elements of a block, or of the message. factor: by which a PREMUL_SUM multiplies what this rank brings.
    codec: a number in `CODECS`; -1: as the group has it. residual: as many float32 as this rank brings; 0: none.
    sends, receives: a block to and from each rank, in place of source, target and count: of a gather, scatter,
    all_to_all, or an all_gather of blocks that differ. peer: of a message; -1: it is received from any rank.
    """

    def __init__(
        self,
        collective: str,
        source: int = 0,
        target: int = 0,
        count: int = 0,
        dtype: int = ...,
        op: int = ...,
        factor: float = 1.0,
        root: int = -1,
        codec: int = -1,
        residual: int = 0,
        sends: Spans = ...,
        receives: Spans = ...,
        peer: int = -1,
        tag: int = 0,
    ) -> None: ...
    @property
    def target(self) -> int: ...
    @property
    def count(self) -> int: ...

class Operation:
    @property
    def id(self) -> int: ...
    @property
    def source(self) -> int: ...
    def done(self) -> bool: ...
    def wait(self, timeout: float = -1.0) -> None: ...
    def notify(self) -> bool:
        """Have the end of an ASYNC operation reported as if its mode were NOTIFY; False if it is over already."""

    def error(self) -> str: ...

class Devices:
    """The CUDA devices of this process; the driver is opened when they are first asked for.

    image: the kernels; the engine's own if it is empty. limits: bytes up to which all groups send arrays through the
    host, and in one shot, which is at most 512 KiB; None: each group measures them.
    """

    def __init__(self, image: bytes = b"", limits: tuple[int, int] | None = None) -> None: ...
    def absent(self) -> str:
        """Why there is no driver or no device; empty if there is one. The rest needs one."""

    def names(self) -> list[str]: ...
    def close(self) -> None:
        """Let all groups leave, which must come before their engine closes."""

    def no_kernels(self, ordinal: int) -> str:
        """Why kernels cannot be started on a device; empty if they can."""

class DeviceGroup:
    """Collectives of a group on the device that has the memory at `address`, or that has this ordinal if that is 0.

    Making one is collective. Every path is called host, one_shot, two_shot, direct, by_machine or staged, and comes
    with a reason.
    """

    def __init__(self, devices: Devices, group: Group, address: int, ordinal: int = 0) -> None: ...
    @property
    def last(self) -> tuple[str, str]:
        """The path of the last operation."""

    @property
    def limits(self) -> tuple[int, int, bool]:
        """Bytes up to which arrays go through the host, and in one shot; whether the ranks have measured that."""

    @property
    def share_device(self) -> bool:
        """Whether two ranks or more have the same device."""

    def start(self, call: CollectiveCall, stream: int, /) -> DeviceOperation:
        """Hand a collective to the device, after whose stream's work it comes; a residual lies there, too."""

    def close(self) -> None: ...

class DeviceOperation:
    @property
    def source(self) -> int: ...
    def order_before(self, stream: int) -> None:
        """Let this stream wait for it. Raises what is known by then."""

    def done(self) -> bool: ...
    def wait(self, timeout: float = -1.0, stream: int | None = None) -> None:
        """Let a stream, by default its own, wait for it, and the host too if the timeout is not negative.

        Raises what is known by then, once the stream is in order.
        """

def communicator(group: Group, divide: Callable[[int, int], Group], /) -> int:
    """The address of a communicator for `engine/mpi`, which lives as long as the process.

    `divide(color, key)` is called in any thread, and returns the group of the ranks that give the same color.
    """

class Group:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def channel(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def link(self) -> str: ...
    def count_large(self, stop: int, look: Callable[[], None] | None = None) -> None:
        """Count and time the large all-reduces, all-gathers and reduce-scatters of this group from now on.

        They are those of at least LARGE_CALL bytes as a whole, and are numbered from 0, alike on all ranks. `look` is
        called before the one with the number `stop`, in the thread that is about to begin it, and must call
        `stop_before`. Where the group carries the data of a coordinator, its large batches of all-reduces are counted;
        the coordinator then holds its batches at the stop, and `Coordinator.stops_id` is reported."""

    def large_calls(self, first: int, /) -> tuple[int, int, list[tuple[str, int, float]]]:
        """How many there were so far, the most that were under way when another one began, and those from `first` on.

        Each comes with its collective, its bytes, and the seconds that it took without what overlaps with the one
        before. Bytes are 0 where it was forgotten, and seconds are negative where it was, or where it is not over."""

    def stop_before(self, number: int, /) -> None:
        """Stop again before the large collective with this number."""

    def finish_large(self) -> None:
        """Wait until no large collective of this group is under way."""

    def ways(self) -> list[tuple[int, bool, int, list[tuple[str, int, float]]]]:
        """How large all-reduces of private buffers go on one machine, as the first rank found out; nothing on others.

        For each size: the least bytes (up to twice as many go alike); whether all ways were tried often enough; which
        one is used (until then the first, the expected one); and each way's name, its block in bytes, and the
        median time it took, in nanoseconds per byte (infinite: not tried yet)."""

    codec: int
    """The number of the codec of all-reduces whose caller names none, where it takes their dtype and reduction."""
    coded_from: int
    """Bytes of a buffer from which they have it."""
    def set_codec(self, codec: int, from_bytes: int = 0) -> None:
        """Set both of these for collectives that start from now on; all ranks do so between the same two."""

    def start(self, call: CollectiveCall, mode: int, /) -> Operation | None:
        """Carry out a call, or only start it. None if it is over: in mode BLOCKING, and for a send that can be."""

    def all_reduce_array(self, array: object, op: int, factor: float, /) -> bool:
        """The blocking call on memory that can be used as it is; False if `array` needs a closer look.

        So are all that end with `_array`, on what has the buffer protocol, and with `_tensor`, on what has DLPack's C
        exchange, whose memory is always written to."""

    def broadcast_array(self, array: object, root: int, /) -> bool: ...
    def reduce_array(self, array: object, op: int, factor: float, root: int, /) -> bool: ...
    def all_gather_array(self, output: object, input: object, /) -> bool: ...
    def reduce_scatter_array(self, output: object, input: object, op: int, factor: float, /) -> bool: ...
    def all_to_all_array(self, output: object, input: object, /) -> bool: ...
    def all_reduce_tensor(self, tensor: object, op: int, factor: float, /) -> bool: ...
    def broadcast_tensor(self, tensor: object, root: int, /) -> bool: ...
    def reduce_tensor(self, tensor: object, op: int, factor: float, root: int, /) -> bool: ...
    def all_gather_tensor(self, output: object, input: object, /) -> bool: ...
    def reduce_scatter_tensor(self, output: object, input: object, op: int, factor: float, /) -> bool: ...
    def all_to_all_tensor(self, output: object, input: object, /) -> bool: ...
    def send_array(self, array: object, peer: int, tag: int, waits: bool, /) -> bool | Operation:
        """True if the array is sent, which it is on return if `waits`; False if it needs a closer look.

        Otherwise it is under way, and the caller keeps it alive."""

    def recv_array(self, array: object, peer: int, tag: int, waits: bool, /) -> int | Operation | None:
        """The rank that a message has come from, as it has on return if `waits`; None: `array` needs a closer look.

        Otherwise it is under way, and the caller keeps the array alive."""

    def sendrecv_array(self, input: object, dest: int, output: object, source: int, tag: int, /) -> bool:
        """True once both messages are over; False if an array needs a closer look."""

    def send_tensor(self, tensor: object, peer: int, tag: int, waits: bool, /) -> bool | Operation: ...
    def recv_tensor(self, tensor: object, peer: int, tag: int, waits: bool, /) -> int | Operation | None: ...
    def set_plans(self, plans: Mapping[str, Sequence[PlanEntry]], /) -> None: ...
    def set_machines(self, machines: Sequence[int], /) -> None:
        """Every rank's machine by a number of its own; nothing is encoded before they are known."""

    def set_pace(self, inbound: float, outbound: Sequence[float], /) -> None:
        """The bytes per second of each stream to this rank, infinite where that is unknown, and of the stream to every
        rank, while all streams of a plan flow at once: 0 where the plan sends nothing, infinite without a limit.
        """

    @property
    def pace(self) -> tuple[float, list[float]]:
        """What `set_pace` was told; without rates for ranks before."""

    def received(self, rank: int, /) -> int:
        """Bytes that the kernel has taken in from this rank, read or not; 0 where it does not count them."""

    def set_timeout(self, seconds: float, /) -> None: ...
    def abort(self, reason: str, /) -> None: ...
    def refuse(self, collective: str, reason: str) -> None: ...
    def close(self) -> None: ...

class Request:
    """A request that was submitted to a coordinator."""

    @property
    def output(self) -> ArenaBuffer | None:
        """The outcome of an all_gather or all_to_all; None before it is done."""

    @property
    def counts(self) -> tuple[int, ...]: ...
    @property
    def last(self) -> int:
        """The rank that joined last, once the join is done."""

    @property
    def id(self) -> int:
        """For `Runtime.notify`, which this rank then owes it: from the first look on, its end is reported."""

    def done(self) -> bool:
        """Whether it is over, well or not; never waits."""

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is over, `timeout` seconds at most (default: the coordinator's).

        Raises Mismatch, which concerns this request only, or PeerLost, Timeout or Aborted, which end all.
        """

class Coordinator:
    def __init__(
        self,
        control: Group,
        data: Group,
        policy: str,
        fusion_bytes: int,
        wait: str,
        cycle_seconds: float,
        cache_capacity: int,
        sleep_every: int,
        machine_of: Sequence[int],
        /,
    ) -> None: ...
    @property
    def board_offset(self) -> int: ...
    def open(self, board_offset: int, /) -> None: ...
    def submit(
        self,
        name: str,
        call: CollectiveCall,
        shape: str = "",
        prescale: float = 1.0,
        postscale: float = 1.0,
        priority: int = 0,
        bundle: tuple[int, int] = ...,
        counts: Sequence[int] = ...,
        devices: Devices | None = None,
        ordinal: int = 0,
        stream: int = 0,
        allocate: Callable[[list[int], int], int] | None = None,
        trial: bool = False,
    ) -> Request:
        """The call's count is of all elements that this rank brings. counts: of the elements for each rank, in an
        all_to_all or reduce_scatter.

        devices: None for memory of the host; else `ordinal` is the device that has it, and `stream` the caller's.

        allocate: of an all_gather or all_to_all on a device; see `OnDevice`. trial: check the arguments and do
        nothing; what is returned is no request then.
        """

    def join(self) -> Request: ...
    def set_order(self, buffers: Sequence[Sequence[str]], /) -> None: ...
    def tune(self, fusion_bytes: int, /) -> None: ...
    def use(self, name: str, buffers: Sequence[Sequence[str]] = ()) -> None:
        """Policy `switching`, on rank 0: change to another policy, `graph` with this order."""

    def in_use(self) -> tuple[str, bool]:
        """The policy that this rank uses now, and whether the last change was refused because a rank had joined."""

    def counters(self) -> tuple[int, ...]: ...
    def records(self, after: int = 0) -> list[tuple[str, str, int, int, int, int, int, int, int, bool, int]]: ...
    def warnings(self) -> list[str]: ...
    @property
    def warnings_id(self) -> int: ...
    @property
    def stops_id(self) -> int:
        """The id that is reported where the coordinator stops, see `Group.count_large`."""

    def close(self) -> None: ...

class PreparedAllReduce:
    """An all-reduce that native code submits again and again; see `Coordinator.prepare_all_reduce`."""

    def __init__(
        self,
        coordinator: Coordinator,
        name: str,
        call: CollectiveCall,
        shape: str,
        prescale: float,
        postscale: float,
        failed: Callable[[int, CommunicationError | ValueError], None],
        keep: object = None,
    ) -> None: ...
    @property
    def address(self) -> int:
        """Where a `std::shared_ptr<tensorflow::Prepared>` lies for as long as this object is alive."""

class ArenaBuffer:
    """Memory in an arena, as a writable buffer of bytes (buffer protocol); given back with its last reference."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Arena:
    """Memory that peers on this machine see: `descriptor` is theirs to map."""

    def __init__(self) -> None: ...
    @property
    def descriptor(self) -> int: ...
    @property
    def allocated(self) -> int: ...
    def allocate(self, size: int, /) -> ArenaBuffer: ...

class Engine:
    def __init__(self, arena: Arena, spin_us: float, description: str, preferred_cpu: int = -1) -> None:
        """`preferred_cpu`: that to which a thread that waits in small operations returns; negative: none."""

    def add_tcp_peer(self, fd: int, description: str) -> int: ...
    def add_shm_peer(
        self, fd: int, memory_fd: int, arena_fd: int, side: int, pid: int, readable: bool, description: str
    ) -> int: ...
    def group(
        self,
        channel: int,
        rank: int,
        peers: Sequence[int],
        timeout: float,
        plans: Mapping[str, Sequence[PlanEntry]],
        failed: Callable[[CommunicationError, str, bool], None] | None = None,
    ) -> Group: ...
    def fate(self, peer: int) -> tuple[str, str]:
        """What has become of a peer, and what peers call the rank that is to blame; "" while it is there."""

    def serve(self) -> None:
        """Move operations on until the engine is closed."""

    def notifications(self) -> list[int]:
        """Wait until NOTIFY operations have ended; return their ids, none once the engine is closed."""

    def close(self) -> None: ...
    def events(self, after: int = 0) -> list[Event]: ...
    def exposed_ns(self) -> int: ...
    def waits(self) -> list[Wait]: ...
    def annotate(self, operation: int, words: str) -> None: ...
    def tell_line(self, line: str) -> None: ...
    def ask(self, words: str) -> int:
        """Ask the program of every rank on another machine; return the question's number, which is above all before."""

    def answers(self) -> list[tuple[str, int, bool, bytes]]:
        """What peers call each rank that was asked, the number of the question that it answered last (0: none), whether
        it is gone by now, and the answer."""

    def questions(self) -> list[tuple[int, int, bytes]]:
        """What other ranks have asked since the last call: the peer, the question's number, its words."""

    def answer(self, peer: int, number: int, content: bytes) -> None:
        """Answer a question with 1 MiB at most. The newest question may be answered again."""

    def flush(self, peer: int) -> bool:
        """Whether all that was queued for this peer has been sent, or the peer is gone."""

    def clocks(self) -> list[tuple[str, int, int]]:
        """What peers call each rank on another machine, and the ns by which its CLOCK_REALTIME is ahead of this one, at
        least and at most; without those of which that is unknown."""

    def questions_descriptor(self) -> int:
        """A descriptor that is readable while there are questions."""

class Tree:
    """A network, and who is where on it. `leaves`, `machine_of` and `cpus_of` are by rank."""

    def __init__(
        self,
        nodes: Sequence[tuple[int, float, float, float, float]],
        leaves: Sequence[int],
        machine_of: Sequence[int],
        cpus_of: Sequence[int],
        cpus: Sequence[int],
    ) -> None:
        """nodes: (parent, bytes per second up, down, seconds of latency, seconds of burst), parents first."""

def program(
    plan: PlanEntry, rank: int, size: int, count: int
) -> tuple[int, list[tuple[int, int, bool, int, int, int]]]:
    """Return how many tracks are under way at once in a rank's program for an all-reduce of `count` float32, and its
    messages.

    Raises ValueError for a plan or a rank that makes no sense.
    """

def run_programs(
    tree: Tree,
    plan: PlanEntry,
    count: int,
    between: float,
    within: float,
    shared_between: float,
    shared_within: float,
    header: float,
) -> tuple[list[float], int, int, list[float]]:
    """Carry out an all-reduce of `count` float32 in virtual time: see `paceline.simulate.programs`.

    Returns every rank's seconds, the messages, the events, and the bytes that crossed each node's link: up and down of
    one node after the other. Raises ValueError for a tree or a plan that makes no sense.
    """

class Job:
    """A training job in virtual time."""

    events: int
    """The number of events that have happened."""
    def __init__(
        self,
        machine_of: Sequence[int],
        policy: str,
        order: Sequence[Sequence[str]],
        awaits: bool,
        seed: int,
        gradients: Sequence[tuple[str, int, float]],
        options: tuple[int, float, str],
        compute: tuple[float, Sequence[float], Sequence[float], Sequence[float], bool, float, float],
        cores: tuple[int, int, float, bool],
        thread: tuple[float, float, float, float, float],
        transfer: tuple[float, float, Sequence[tuple[float, float]]],
    ) -> None:
        """See `paceline.simulate.Job`. options: fusion bytes, seconds of a cycle, and `spin` or `yield`.

        Raises ValueError for a job that makes no sense."""
    def step(self) -> dict[str, float]:
        """Simulate the next step of all ranks, and return its figures: see `paceline.simulate.Step`."""
    def timeline(self) -> tuple[float, list[float], list[tuple[float, float, float, int, int]]]:
        """Return when the last step began, when each rank had submitted everything, and its batches.

        A batch is (when the first rank issued it, when it began, when it was over, bytes, requests). All times are
        seconds since the job began.
        """
