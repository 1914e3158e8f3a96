"""What each started process runs first; it then becomes the rank's own program (same pid, `exec`).

    python -I -S child.py SIGNAL PARENT REPORT CORES INTERRUPTS program arguments...

SIGNAL  the kernel sends it to this process when its parent dies, so that no rank outlives its launcher
PARENT  the parent's pid, or 0 where whoever writes this command line doesn't know it
REPORT  name of the launcher's abstract Unix socket: tell it who we are, get the descriptor to use as stderr; or "-"
CORES   the CPUs of each local rank, as "0,1;2,3"; or "-"
INTERRUPTS  "held" if the program begins with SIGINT blocked, as this one does; or "-"

It is run by path and imports the standard library only, because it costs its time in every rank.
"""

import array
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1
REPORT_TIMEOUT_SECONDS = 10.0


def main(arguments: list[str]) -> None:
    """Prepare this process as the arguments say, then replace it."""
    death_signal, parent, report, cores, interrupts = arguments[:5]
    program = arguments[5:]
    die_with_parent(int(death_signal), int(parent))
    leave_foreground()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if cores != "-":
        pin(cores, local_rank)
    if report != "-":
        take_stderr(report, local_rank)
    if interrupts != "held":
        take_interrupts()
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"cannot start {program[0]}: {error.strerror}")


def die_with_parent(number: int, parent: int = 0) -> None:
    """Ask the kernel for signal `number` when the parent dies; leave at once if it already has."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def leave_foreground() -> None:
    """Ctrl-C on the terminal reaches the launcher alone, which then ends the job in order.

    A process group does it, and no session: Linux shares CPUs between sessions, and ranks in sessions of their own
    could not yield to each other. Reading the terminal fails, as it would in another session, instead of stopping.
    """
    if os.getpgrp() != os.getpid():  # torchrun's ranks lead groups already
        os.setpgid(0, 0)
    for number in (signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def take_interrupts() -> None:
    """Let SIGINT through; one that came while this interpreter started ends the process without a word."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, and stays so
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def pin(cores: str, local_rank: int) -> None:
    """Keep this process on its own CPUs; where the kernel refuses, say so and run anywhere."""
    lists = cores.split(";")
    try:
        os.sched_setaffinity(0, [int(core) for core in lists[local_rank % len(lists)].split(",")])
    except OSError as error:
        print(f"paceline: local rank {local_rank} is not pinned to its cores: {error.strerror}", file=sys.stderr)


def take_stderr(report: str, local_rank: int) -> None:
    """Report to the launcher and write errors where it says; a launcher that doesn't answer changes nothing."""
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
