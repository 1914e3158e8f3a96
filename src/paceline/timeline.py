"""A timeline of named tensors, written while the job runs, in the phases that Horovod's has."""

from __future__ import annotations


def start(path: str, mark_cycles: bool = False, *, here: bool | None = None) -> None:
    """Write the timeline of this job to the file `path` from now on. Every rank may call this; rank 0 writes.

    A timeline that is being written ends. mark_cycles: also mark when each batch was issued. here: whether this rank
    writes; None: only rank 0 does. Raises CommunicationError before this process has joined its job, and OSError if the
    file cannot be made.
    """
    from paceline.errors import refusal
    from paceline.process.current import running

    process = running()
    if process is None or process.monitor is None:
        raise refusal("a timeline begins when this process has joined its job")
    process.monitor.start_timeline(path, mark_cycles, here)


def stop() -> None:
    """Finish the timeline; nothing happens if none is being written."""
    from paceline.process.current import running

    process = running()
    if process is not None and process.monitor is not None:
        process.monitor.stop_timeline()
