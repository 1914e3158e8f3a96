"""The first program of each started process; it prepares the process and then replaces itself by the rank's program.

    python -I -S child.py SIGNAL PARENT REPORT CORES INTERRUPTS program arguments...

SIGNAL the signal that the kernel sends to this process when its parent dies, so that no rank outlives its launcher
PARENT the parent's pid, or 0 if the writer of this command line does not know it
REPORT name of the launcher's abstract Unix socket, where this process reports and receives its stderr; or "-"
CORES the CPUs of each local rank, as "0,1;2,3"; or "-"
INTERRUPTS "held" if the program starts with SIGINT blocked, as this one does; or "-"

It is run by path and imports the standard library only, because every rank pays for its start-up time.
"""

import array
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1
"""The prctl option that sets the signal for a parent's death, from linux/prctl.h."""
REPORT_TIMEOUT_SECONDS = 10.0
"""Seconds that each step of the report to the launcher may take."""


def main(arguments: list[str]) -> None:
    """Prepare this process as the arguments say, then replace it by the program. Exits with a message if that fails."""
    death_signal, parent, report, cores, interrupts = arguments[:5]
    program = arguments[5:]
    die_with_parent(int(death_signal), int(parent))
    leave_foreground()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if cores != "-":
        pin(cores, local_rank)
    if report != "-":
        take_stderr(report, local_rank)
        os.environ["PACELINE_COLLECTOR"] = report
    if interrupts != "held":
        take_interrupts()
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"cannot start {program[0]}: {error.strerror}")


def die_with_parent(number: int, parent: int = 0) -> None:
    """Ask the kernel to send signal `number` when the parent dies.

    Kills this process if its parent is no longer `parent`.
    """
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def leave_foreground() -> None:
    """Leave the terminal's foreground, so that Ctrl-C reaches only the launcher, which then ends the job in order.

    This makes a process group and not a session: Linux shares CPUs between sessions, and ranks in sessions of their own
    could not yield to each other. Reading from the terminal fails, as it would in another session, instead of stopping
    the process.
    """
    if os.getpgrp() != os.getpid():  # torchrun's ranks already lead their own groups
        os.setpgid(0, 0)
    for number in (signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def take_interrupts() -> None:
    """Unblock SIGINT; one that arrived while this interpreter started ends the process without a message."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise SIGINT is ignored and stays ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def pin(cores: str, local_rank: int) -> None:
    """Restrict this process to its own CPUs. If the kernel refuses, report it and run on any CPU."""
    lists = cores.split(";")
    try:
        os.sched_setaffinity(0, [int(core) for core in lists[local_rank % len(lists)].split(",")])
    except OSError as error:
        print(f"paceline: local rank {local_rank} is not pinned to its cores: {error.strerror}", file=sys.stderr)


def take_stderr(report: str, local_rank: int) -> None:
    """Report to the launcher and use the stderr that it returns.

    If the launcher does not answer, stderr stays unchanged.
    """
    rank = os.environ.get("RANK", str(local_rank))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as launcher:
            launcher.settimeout(REPORT_TIMEOUT_SECONDS)
            launcher.connect("\0" + report)
            launcher.sendall(f"{rank} {local_rank} {os.getpid()}\n".encode())
            descriptors = array.array("i")
            _, ancillary, _, _ = launcher.recvmsg(1, socket.CMSG_SPACE(descriptors.itemsize))
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data[: descriptors.itemsize])
        if descriptors:
            os.dup2(descriptors[0], 2)
            os.close(descriptors[0])
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1:])
