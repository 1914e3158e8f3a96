"""The kernels of join, and of questions whose answer may change while a graph stays: rank, size and so on."""

from __future__ import annotations

from paceline.horovod import basics, job
from paceline.horovod.channel import Channel
from paceline.horovod.handles import Pending
from paceline.horovod.tensorflow.kernels.call import Call
from paceline.horovod.tensorflow.kernels.memory import INT32

NOT_INITIALISED, UNKNOWN_SET = -1, -3
"""The answers of Horovod's process_set_included_op before `init`, and for a set that does not exist."""


def join(channel: Channel, call: Call) -> Pending[None]:
    """Announce that this rank has no more data; the output is the last rank to join."""
    request = channel.join()

    def finish() -> None:
        channel.next_round()
        call.output(0, INT32, ()).array()[...] = request.last

    return Pending(channel, (), [request], finish)


def answer(question: str, process_set: int) -> int:
    """Return the answer to a question of one of the `..._op` functions.

    Raises ValueError before `init`, and for a process set that does not exist.
    """
    if question == "process_set_included":
        return _included(process_set)
    if question == "size":
        ranks = job.current().sets.get(process_set)
        if ranks is None:
            raise ValueError("Process set does not exist or has not been registered.")
        return len(ranks)
    return {"rank": basics.rank, "local_rank": basics.local_rank, "local_size": basics.local_size}[question]()


def _included(process_set: int) -> int:
    if not job.running():
        return NOT_INITIALISED
    ranks = job.current().sets.get(process_set)
    return UNKNOWN_SET if ranks is None else int(job.current().rank in ranks)
