"""The runtime with an engine that only remembers: links adopted, callbacks called, nothing left after close."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rendezvous_fakes import FakeModule, good, in_threads, settings

from paceline.errors import CommunicationError, RendezvousError
from paceline.observe.trace import dump, live
from paceline.observe.trace.clocks import Clocks
from paceline.observe.trace.event import Event
from paceline.process import network
from paceline.rendezvous.store import MemoryStore
from paceline.runtime.completions import Completions
from paceline.runtime.flight_recorder import FlightRecorder
from paceline.runtime.runtime import Runtime
from paceline.settings.settings import Settings
from paceline.topology import Topology
from paceline.version import VERSION

TIMEOUT = 20.0


def plans(topology: Topology, ranks: Sequence[int], algorithm: str | None) -> dict[str, list[Any]]:
    return {"all_reduce": [(topology.world, len(list(topology.machines())) == 1)]}


class Unseen:
    """Nobody sees anything of a rank."""

    def begin(self, *_: object) -> None:
        pass

    def failed(self) -> None:
        pass

    def close(self) -> None:
        pass


def runtime_of(settings: Settings, native: Any) -> Runtime:
    return Runtime(settings, native, plans, network, lambda *_: Unseen())


@pytest.fixture
def runtimes() -> Iterator[list[Runtime]]:
    made = [runtime_of(settings(rank, 3), FakeModule()) for rank in range(3)]
    yield made
    for runtime in made:
        runtime.close()


def open_descriptors() -> set[str]:
    return {fd.name for fd in Path("/proc/self/fd").iterdir()}


def engine_of(runtime: Runtime) -> Any:
    return runtime._native.engines[0]  # type: ignore[attr-defined]


def group_of_all(runtimes: list[Runtime], store: MemoryStore | None = None) -> list[Any]:
    store = store or MemoryStore()
    size = len(runtimes)
    return good(in_threads([partial(r.group, store, rank, size, TIMEOUT) for rank, r in enumerate(runtimes)]))


def test_a_group_gets_its_peers_plans_and_channel(runtimes: list[Runtime]) -> None:
    groups = group_of_all(runtimes)
    assert len({channel for channel, *_ in groups}) == 1
    for rank, (_, own, peers, timeout, entries) in enumerate(groups):
        assert (own, peers[rank], timeout) == (rank, -1, TIMEOUT)
        assert sorted(peers) == [-1, 0, 1]
        assert entries == {"all_reduce": [(3, True)]}
        described = engine_of(runtimes[rank]).peers
        for other, handle in enumerate(peers):
            if other != rank:
                assert described[handle].kind == "shm"
                assert described[handle].description.startswith(f"rank {other} (host ")
                assert described[handle].description.endswith(f", pid {os.getpid()})")


def test_links_are_made_once(runtimes: list[Runtime]) -> None:
    first = group_of_all(runtimes)
    second = group_of_all(runtimes)
    assert [len(engine_of(runtime).peers) for runtime in runtimes] == [2, 2, 2]
    assert [group[2] for group in first] == [group[2] for group in second]
    assert first[0][0] != second[0][0]
    assert [len(runtime._native.engines) for runtime in runtimes] == [1, 1, 1]  # type: ignore[attr-defined]


def test_a_subgroup_needs_no_meeting(runtimes: list[Runtime]) -> None:
    (channel, _, peers, _, _), *_ = group_of_all(runtimes)
    made = runtimes[0].subgroup(channel, [2, 0], 77, 5.0)
    assert made[:4] == (77, 1, [peers[2], -1], 5.0)
    assert runtimes[0].membership(77).rank == 1
    assert [member.rank for member in runtimes[0].membership(77).members] == [2, 0]
    with pytest.raises(CommunicationError, match="not one of"):
        runtimes[0].subgroup(channel, [1, 2], 78, 5.0)
    runtimes[0].forget(77)
    with pytest.raises(CommunicationError, match="no group"):
        runtimes[0].membership(77)


def test_one_rank_without_a_store() -> None:
    runtime = runtime_of(settings(0, 1), FakeModule())
    assert runtime.group(None, 0, 1, 5.0)[1:] == (0, [-1], 5.0, {"all_reduce": [(1, True)]})
    runtime.close()


def test_limits_that_leave_no_shared_memory_are_told() -> None:
    class Limited(FakeModule):
        def Arena(self) -> Any:
            raise RuntimeError("ftruncate of shared memory: File too large")

    with pytest.raises(CommunicationError, match=r"no shared memory \(.*File too large\): .* ulimit -f and ulimit -v"):
        runtime_of(settings(0, 1), Limited())


def test_limits_that_leave_no_engine_or_no_group_are_told() -> None:
    class Denied(FakeModule):
        def Engine(self, *_: object) -> Any:
            raise RuntimeError("eventfd: Operation not permitted")

    class Limited(FakeModule):
        def Engine(self, *arguments: Any) -> Any:
            engine = super().Engine(*arguments)
            engine.group = full  # type: ignore[method-assign]
            return engine

    def full(*_: object) -> Any:
        raise MemoryError("std::bad_alloc")

    for module, why in ((Denied(), r"no engine \(eventfd: Operation not permitted\)"), (Limited(), "ulimit -v")):
        runtime = runtime_of(settings(0, 1), module)
        with pytest.raises(CommunicationError, match=why):
            runtime.group(None, 0, 1, 5.0)
        runtime.close()


def test_ranks_without_a_cpu_each_do_not_spin(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    cpus = len(os.sched_getaffinity(0))
    for runtime in runtimes:
        assert runtime.spin is not None
        assert runtime.spin.microseconds == engine_of(runtime).spin_us
        if cpus < 3:
            assert runtime.spin.microseconds == 0
            assert "3 ranks share" in runtime.spin.reason


def test_callbacks_run_once_on_a_thread_of_their_own(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    called: list[tuple[int, str]] = []
    done = threading.Event()
    for operation in (4, 5):
        runtimes[0].notify(operation, lambda o=operation: called.append((o, threading.current_thread().name)))  # type: ignore[misc]
    runtimes[0].notify(6, done.set)
    engine_of(runtimes[0]).finish(5, 4, 6)
    assert done.wait(TIMEOUT)
    assert called == [(4, "paceline-notify"), (5, "paceline-notify")]


def test_a_callback_that_comes_late_is_not_lost(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    seen = threading.Event()
    runtimes[0].notify(9, seen.set)
    engine_of(runtimes[0]).finish(8)
    engine_of(runtimes[0]).finish(9)
    assert seen.wait(TIMEOUT)
    late = threading.Event()
    runtimes[0].notify(8, late.set)
    assert late.is_set()


def test_registration_and_report_race() -> None:
    for _ in range(200):
        completions, called = Completions(), []
        in_threads([partial(completions.register, 1, partial(called.append, 1)), partial(completions.report, [1])])
        assert called == [1]


def test_a_failing_callback_does_not_stop_the_others(runtimes: list[Runtime], caplog: pytest.LogCaptureFixture) -> None:
    group_of_all(runtimes)
    done = threading.Event()
    runtimes[0].notify(1, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    runtimes[0].notify(2, done.set)
    engine_of(runtimes[0]).finish(1, 2)
    assert done.wait(TIMEOUT)
    assert "division by zero" in caplog.text


def test_close_calls_whoever_still_waits_and_leaves_nothing(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    waiting = threading.Event()
    before = set(threading.enumerate())
    runtimes[0].notify(3, waiting.set)
    before |= set(threading.enumerate())
    for _ in range(2):
        runtimes[0].close()
    assert waiting.is_set()
    assert engine_of(runtimes[0]).closed
    ended = [thread.name for thread in before - set(threading.enumerate())]
    assert ended.count("paceline-serve") == ended.count("paceline-notify") == 1
    assert not runtimes[0].usable
    for use in (lambda: runtimes[0].group(None, 0, 1, 1.0), lambda: runtimes[0].notify(1, waiting.set)):
        with pytest.raises(CommunicationError, match="shut down"):
            use()


def test_close_from_a_callback(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    closed = threading.Event()
    runtimes[0].notify(3, lambda: (runtimes[0].close(), closed.set()))  # type: ignore[arg-type, return-value, func-returns-value]
    engine_of(runtimes[0]).finish(3)
    assert closed.wait(TIMEOUT)


def test_an_engine_that_refuses_a_peer_leaks_nothing(runtimes: list[Runtime], monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_descriptors()

    class Refusing(FakeModule):
        def Engine(self, arena: Any, spin_us: float, description: str, preferred_cpu: int) -> Any:
            engine = super().Engine(arena, spin_us, description, preferred_cpu)

            def refuse(fd: int, memory_fd: int, arena_fd: int, *rest: Any) -> int:
                for given in (fd, memory_fd, arena_fd):
                    os.close(given)
                raise CommunicationError("planted")

            engine.add_shm_peer = refuse  # type: ignore[method-assign]
            return engine

    refusing = [runtime_of(settings(rank, 3), Refusing()) for rank in range(3)]
    store = MemoryStore()
    for error in in_threads([partial(r.group, store, rank, 3, TIMEOUT) for rank, r in enumerate(refusing)]):
        assert "planted" in str(error)
    for runtime in refusing:
        runtime.close()
    assert open_descriptors() <= before


def test_a_forked_child_is_told_in_one_sentence(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            runtimes[0].close()  # touches nothing of the parent's
            runtimes[0].group(None, 0, 1, 1.0)
        except CommunicationError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    assert text.startswith(f"this process was forked from process {os.getpid()}")
    assert not engine_of(runtimes[0]).closed


def test_a_group_that_fails_can_be_tried_again(runtimes: list[Runtime]) -> None:
    with pytest.raises(RendezvousError, match="1/3 joined"):
        runtimes[0].group(MemoryStore(), 0, 3, 0.05)
    group_of_all(runtimes)


def test_a_failed_meeting_says_which_ranks_of_the_job_it_is_about(runtimes: list[Runtime]) -> None:
    with pytest.raises(RendezvousError) as caught:
        runtimes[0].group(MemoryStore(), 0, 3, 0.05)
    assert caught.value.group == (0, 1, 2)
    group_of_all(runtimes)
    with pytest.raises(RendezvousError, match="missing rank 1 ") as caught:
        runtimes[2].group(MemoryStore(), 0, 2, 0.05)
    error = caught.value
    assert (error.rank, error.group) == (None, None)  # rank 1 of that group may be any of the job


def test_what_this_process_may_not_do_is_its_own_fault(runtimes: list[Runtime]) -> None:
    group_of_all(runtimes)
    runtimes[1].close()
    with pytest.raises(CommunicationError) as caught:
        runtimes[1].group(None, 0, 1, 1.0)
    error = caught.value
    assert (error.rank, error.host, error.pid) == (1, socket.gethostname(), os.getpid())


def test_groups_that_were_closed_long_ago_are_forgotten() -> None:
    member: Any = SimpleNamespace(process="me", rank=0, machine="here")
    blank = [kind() for kind in Event.__annotations__.values()]
    rows = [[number, channel, *blank[2:]] for number, channel in enumerate((1, 2, 3000), 1)]
    recorder = FlightRecorder("me", settings(0, 1), lambda: rows, list, list)
    for channel in range(1, 3001):
        recorder.add_group(channel, [member])
        if channel > 1:
            recorder.close_group(channel)
    assert len(recorder.groups) < 2000
    told = dump.decode(recorder.encoded())
    assert told.groups[3000].name == "group 2999" and 1 in told.groups and 2 not in told.groups
    assert [event.channel for event in told.events] == [1, 3000]


def test_a_rank_is_found_by_what_the_members_of_a_group_call_it() -> None:
    members: list[Any] = [SimpleNamespace(process=f"process {rank}", rank=rank, pid=100 + rank) for rank in range(3)]
    recorder = FlightRecorder("process 1", settings(1, 3), list, list, list)
    recorder.add_group(1, members)
    assert recorder.locate(str(members[2])) == (2, 102)
    recorder.add_group(2, members[1:])
    assert recorder.locate(f"group rank 1 = {members[2]}") == (2, 102)
    assert recorder.locate(f"group rank 0 = {members[2]}") is None


def test_of_a_machine_s_ranks_the_one_counts_that_tells_its_clock_best() -> None:
    members: list[Any] = [
        SimpleNamespace(process=f"process {rank}", rank=rank, machine="abb"[rank]) for rank in range(3)
    ]
    told = [(str(members[1]), -50, 70), (str(members[2]), -5, 7), ("a stranger", 0, 0)]
    recorder = FlightRecorder("process 0", settings(0, 3), list, list, lambda: told)
    recorder.add_group(1, members)
    assert recorder.clocks() == Clocks("a", {"b": (-5, 7)})


def test_the_first_failure_of_a_group_is_written_at_once(tmp_path: Path) -> None:
    runtime = runtime_of(settings(0, 1, trace=str(tmp_path)), FakeModule())
    channels = [runtime.group(None, 0, 1, 5.0)[0] for _ in range(2)]
    engine_of(runtime).failed[channels[0]](CommunicationError("of one request"), "", True)
    written = tmp_path / "rank-00000.json"
    for channel, message in [(channels[0], "first"), (channels[0], "again"), (channels[1], "other group")]:
        engine_of(runtime).failed[channel](CommunicationError(message), "", False)
        if message == "again":
            assert not written.exists()
            continue
        assert dump.read(tmp_path)[0].reason.startswith("first; raised at ")
        written.unlink()
    runtime.close()
    assert dump.read(tmp_path)[0].reason.startswith("first; raised at ")


def test_several_runtimes_of_a_process_can_all_be_asked(runtimes: list[Runtime]) -> None:
    before = set(live.listening())
    group_of_all(runtimes)
    mine = [name for name in live.listening() if name.pid == os.getpid() and name not in before]
    answers = [live.ask(name, TIMEOUT) for name in mine]
    assert sorted(answer.rank for answer in answers if isinstance(answer, dump.Dump)) == [0, 1, 2]
    for runtime in runtimes:
        runtime.close()
    assert not set(mine) & set(live.listening())


def test_the_version_is_the_projects() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'\nversion = "{VERSION}"\n' in project.read_text()
