"""`paceline run` plans a job, prints the plan, starts and watches the job, ends it, and reports the first failure."""

import os
import secrets
import selectors
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from paceline.cpu.budget import CpuBudget, physical_cores
from paceline.cpu.partition import Partition, parse, partition
from paceline.host_name import host_name
from paceline.launch import torchrun
from paceline.launch.arguments import Arguments
from paceline.launch.job import UNBUFFERED, Ended, Job
from paceline.launch.kept import kept
from paceline.launch.local import LocalJob
from paceline.launch.output_stream import OutputStream
from paceline.launch.resources import Resources, plan_resources, plausible
from paceline.launch.stderr import Collector
from paceline.launch.supervise import Listener, Signals, finish, supervise
from paceline.launch.threads import interop_variables
from paceline.launch.unstarted import Unstarted, waits_for
from paceline.rendezvous.reminder import Reminder
from paceline.settings.settings import Settings


@dataclass(frozen=True)
class LaunchRequest:
    """A job as the user asked for it.

    ranks: a number, or a word that torchrun resolves ("auto", "cpu", "gpu"). threads: per rank; None lets the plan
    decide. pin: whether each rank gets CPUs of its own. direct: whether ranks are started without torchrun. grace:
    seconds that the job has to end after a signal. cores: the value that replaces PACELINE_CORES; "" keeps the
    variable. interop: inter-op threads per rank; None leaves them to the framework. interrupt: the signal that the job
    gets on Ctrl-C. extra_env: further variables of each rank, if ranks are started directly.
    """

    arguments: Arguments
    ranks: str
    threads: int | None = None
    pin: bool = False
    direct: bool = False
    grace: float = 10.0
    cores: str = ""
    interop: int | None = None
    interrupt: int = signal.SIGINT
    extra_env: tuple[Mapping[str, str], ...] = ()


def run(request: LaunchRequest, environ: Mapping[str, str], budget: CpuBudget) -> int:
    """Run the job to its end and return the exit code to leave with.

    environ: the user's environment. budget: the CPUs of this process.

    Raises ValueError with one sentence for an invalid request.
    """
    direct = request.direct or not torchrun.installed()
    check(request, environ, direct)
    ranks = int(request.ranks) if request.ranks.isdigit() else None
    plausible(ranks or 0, budget)
    divided = division(request, environ, budget, ranks or 0)
    resources = plan_resources(ranks, budget, environ, threads=request.threads, pin=request.pin, divided=divided)
    environment, notes = ranks_environment(request, environ, resources)
    how = "directly" if direct else "by torchrun"
    say(f"{request.ranks} rank{'' if request.ranks == '1' else 's'} started {how}; {resources.reasons[0]}")
    for line in (*resources.reasons[1:], *notes):
        say(line)

    cores = ";".join(",".join(map(str, own)) for own in resources.cores) or "-"
    make = _direct_job if direct else _torchrun_job
    signals = Signals()
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        if torchrun.redirects_output(request.arguments):
            job = make(request, environment, "-", cores)
            with kept(job), job:
                return supervise(job, selector, signals, None, request.grace, interrupt=request.interrupt)
        collector = Collector(selector, interrupts=signals.received)
        job = make(request, environment, collector.address, cores)
        listener: Listener = collector
        if not direct and not torchrun.one_machine(request.arguments, environ):
            reminder = Reminder(_settings(environ).stall_seconds, say)
            listener = Unstarted(collector, reminder, partial(waits_for, request.arguments, environ))
        return watch(
            job,
            selector,
            signals,
            collector,
            request.grace,
            by_torchrun=not direct,
            listener=listener,
            interrupt=request.interrupt,
        )


def watch(
    job: Job,
    selector: selectors.BaseSelector,
    signals: Signals,
    collector: Collector,
    grace: float = 10.0,
    *,
    by_torchrun: bool = False,
    listener: Listener | None = None,
    interrupt: int = signal.SIGINT,
) -> int:
    """Start the job, supervise it to its end, and print who failed first or which signal came. Returns the exit code.

    It returns once the readers of the output have taken everything, or a signal allows no more time.

    grace: seconds that the job has to end after a signal. by_torchrun: whether the job's only process is torchrun's
    agent. listener: handles output in place of the collector, which it wraps. interrupt: the signal that the job gets
    on Ctrl-C.
    """
    try:
        with collector.relay.spoken():
            with kept(job), job:
                agent = _listen_to_agent(job, collector) if by_torchrun else None
                code = supervise(job, selector, signals, listener or collector, grace, interrupt=interrupt)
            collector.close()
            if signals.received:
                if count := collector.repeats.count:
                    say(f"{count} more {'rank' if count == 1 else 'ranks'} wrote the same")
                say(f"{signal.Signals(signals.received[0]).name} ended the job; none of its processes is left")
            elif code:
                cause = first_failure(job, collector, agent)
                explain(cause)
                if not by_torchrun and cause.ended is not None:
                    code = cause.ended.code
    finally:
        finish(selector, signals, collector, collector.relay)
    return code


def check(request: LaunchRequest, environ: Mapping[str, str], direct: bool) -> None:
    """Raise ValueError, with one sentence that says what would be right, if the request cannot be carried out."""
    arguments = request.arguments
    _settings(environ)  # raises here what each rank would raise with a traceback
    if not arguments.program:
        raise ValueError("name the program to run, for example: paceline run -n 4 train.py")
    if request.ranks.isdigit() and int(request.ranks) < 1:
        raise ValueError(f"-n {request.ranks}: a job needs at least one rank")
    if not request.ranks.isdigit() and request.ranks not in torchrun.RANK_WORDS:
        words = ", ".join(torchrun.RANK_WORDS)
        raise ValueError(f"-n {request.ranks}: the number of ranks must be a number (or, with torchrun, {words})")
    check_system(direct)
    script = arguments.program[0]
    if torchrun.is_file(script) and not os.access(script, os.R_OK):
        raise ValueError(f"{script} may not be read")
    is_program = torchrun.is_file(script) or torchrun.is_command(script)
    if not arguments.gives("-m", "--module", "--no-python") and not is_program:
        raise ValueError(f"there is no program {script}")
    first = torchrun.rank_program(arguments, environ)[0]
    if "/" in first and not os.access(first, os.X_OK):
        raise ValueError(f"{first} may not be executed" if torchrun.is_file(first) else f"there is no program {first}")
    if direct:
        rest = [o for o in arguments.torchrun if o.replace("_", "-") not in ("-m", "--module", "--no-python")]
        why = "--direct was given" if request.direct else "torch is not installed here"
        if rest:
            raise ValueError(f"{rest[0]} is an option of torchrun, and {why}")
        if not torchrun.one_machine(arguments, environ):
            raise ValueError(f"a job on several machines needs torchrun, and {why}")
        if not request.ranks.isdigit():
            raise ValueError(f"-n {request.ranks}: without torchrun the number of ranks must be a number")
    if request.pin and arguments.gives("--run-path"):
        raise ValueError("--pin and --run-path don't go together")


def check_system(direct: bool) -> None:
    """Raise ValueError, with one sentence, if the system lacks what every job needs."""
    try:
        os.close(os.eventfd(0, os.EFD_CLOEXEC))
    except OSError as error:
        raise ValueError(
            f"this system allows no eventfd ({error.strerror}), which every rank needs: its sandbox must allow it"
        ) from None
    if not direct:
        try:
            socket.gethostname().encode("idna")
        except UnicodeError:
            raise ValueError(
                f"torchrun does not run where the host name is no name for DNS, as {host_name()}: change it, or "
                "start the ranks of one machine with --direct"
            ) from None


def division(request: LaunchRequest, environ: Mapping[str, str], budget: CpuBudget, ranks: int) -> list[Partition]:
    """Return how each rank on this machine will divide its CPUs; empty if division is off.

    Raises ValueError if it is invalid.
    """
    text = request.cores or environ.get("PACELINE_CORES", "").strip() or "off"
    try:
        wish = parse(text)
    except ValueError as error:
        name = "--cores" if request.cores else "PACELINE_CORES"
        raise ValueError(f"{name}={text!r} {error}") from None
    if wish.mode == "off":
        return []
    if request.pin:
        raise ValueError("--pin and --cores don't go together; --cores keeps the ranks apart, too")
    affinity, cores = frozenset(budget.affinity), physical_cores(budget.affinity)
    return [partition(wish, budget, cores, [affinity] * ranks, place) for place in range(ranks)]


def ranks_environment(
    request: LaunchRequest, environ: Mapping[str, str], resources: Resources
) -> tuple[dict[str, str], list[str]]:
    """Return the environment of the job and notes for the user."""
    environment = {**UNBUFFERED, **environ, **resources.variables, **interop_variables(request.interop)}
    if request.cores:
        environment["PACELINE_CORES"] = request.cores
    notes = []
    if "PACELINE_SECRET" not in environ:
        if torchrun.one_machine(request.arguments, environ):
            environment["PACELINE_SECRET"] = secrets.token_hex(32)
        else:
            notes.append("secret: none; set PACELINE_SECRET to the same value on every machine to authenticate ranks")
    return environment, notes


@dataclass(frozen=True)
class Cause:
    """The first failure.

    stderr: the output of the rank that failed, None if it is unknown; the failure is then that of a process started
    here, a rank or torchrun. ended: how the process ended, None if it is unknown.
    """

    stderr: OutputStream | None = None
    ended: Ended | None = None


def first_failure(job: Job, collector: Collector, agent: OutputStream | None) -> Cause:
    """Find the rank that failed first, from exit codes and from the order in which the ranks' errors arrived.

    agent: the stderr of torchrun's agent, None without torchrun. Its summary holds the exit codes; ranks that it ended
    itself (SIGTERM) are the last suspects.
    """
    streams = {stream.pid: stream for stream in collector.streams if stream is not agent and not stream.is_output}
    failures = job.failures if agent is None else torchrun.failures(agent.tail.decode(errors="replace"))
    suspects = [(failure, streams[failure.pid]) for failure in failures if failure.pid in streams]
    if suspects:
        by_torchrun = 128 + signal.SIGTERM if agent else None
        ended, stream = min(suspects, key=lambda s: (s[0].code == by_torchrun, s[1].blames_another, s[1].failed_at))
        return Cause(stream, ended)
    traced = [stream for stream in streams.values() if stream.traced]
    if traced:
        return Cause(min(traced, key=lambda stream: (stream.blames_another, stream.failed_at)))
    return Cause(None, job.failed)


def explain(cause: Cause) -> None:
    """Print which rank failed first, or after a timeout which rank was waited for, and at the end its last output."""
    if cause.stderr is None:
        if cause.ended is not None and cause.ended.code > 128:  # a killed process had no time to print a reason
            say(f"the job ended because {cause.ended}")
        return
    words, waited_for = cause.stderr.last_words(), cause.stderr.waited_for
    who = str(cause.ended or f"rank {cause.stderr.rank} (pid {cause.stderr.pid})")
    print(file=sys.stderr)
    if waited_for:
        say(f"the job stopped for {waited_for}, which did not come in time; {who}, which waited, said:")
    else:
        say(f"first to fail on {host_name()}: {who}; it {'said:' if words else 'wrote nothing to stderr'}")
    if words:
        print(words, file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Print a line of the launcher's own on stderr, so that stdout holds only the program's output."""
    print(f"paceline: {line}", file=sys.stderr, flush=True)


def _settings(environ: Mapping[str, str]) -> Settings:
    """Read Paceline's own variables, apart from the one that `division` reads. Raises ConfigurationError."""
    ours = {name for name in environ if name.startswith("PACELINE_") and name != "PACELINE_CORES"}
    return Settings.from_environment({name: environ[name] for name in ours})


def _direct_job(request: LaunchRequest, environment: Mapping[str, str], report: str, cores: str) -> Job:
    program = torchrun.rank_program(request.arguments, environment)
    return LocalJob(int(request.ranks), program, environment, report=report, cores=cores, extra_env=request.extra_env)


def _torchrun_job(request: LaunchRequest, environment: Mapping[str, str], report: str, cores: str) -> Job:
    return torchrun.TorchrunJob(request.arguments, request.ranks, environment, report=report, cores=cores)


def _listen_to_agent(job: Job, collector: Collector) -> OutputStream | None:
    agent = job.processes[0]
    if agent.stderr is None:
        return None
    stream = collector.listen_to(os.dup(agent.stderr.fileno()), agent.pid)
    agent.stderr.close()
    return stream
