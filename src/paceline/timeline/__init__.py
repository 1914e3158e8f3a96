"""A timeline of named tensors, written while the job runs, in the phases that Horovod's has."""

from __future__ import annotations


def start(path: str, mark_cycles: bool = False) -> None:
    """Write the timeline of this job to `path` from now on. Every rank may call it; the first one writes.

    mark_cycles: also mark when each batch was issued. Raises CommunicationError before this process has joined its job,
    OSError if the file can't be made.
    """
    from paceline.runtime import runtime

    runtime().lookout.start_timeline(path, mark_cycles)


def stop() -> None:
    """Finish the timeline. Nothing happens where none is being written."""
    from paceline.runtime import runtime

    runtime().lookout.stop_timeline()
