"""A timeline of named tensors, written while the job runs, in the phases that Horovod's has."""

from __future__ import annotations


def start(path: str, mark_cycles: bool = False, *, here: bool | None = None) -> None:
    """Write the timeline of this job to `path` from now on. Every rank may call it; the first one writes.

    mark_cycles: also mark when each batch was issued. here: whether this rank writes, where that is not the first one.
    One that is being written ends. Raises CommunicationError before this process has joined its job,
    OSError if the file can't be made.
    """
    from paceline.errors import CommunicationError
    from paceline.runtime.process import running

    home = running()
    if home is None or home.monitor is None:
        raise CommunicationError("a timeline begins when this process has joined its job")
    home.monitor.start_timeline(path, mark_cycles, here)


def stop() -> None:
    """Finish the timeline. Nothing happens where none is being written."""
    from paceline.runtime.process import running

    home = running()
    if home is not None and home.monitor is not None:
        home.monitor.stop_timeline()
