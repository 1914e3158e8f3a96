"""Lets collectives of one `tf.function` run side by side.

TensorFlow runs the stateful ops of a function one after the other, as the program has them. Collectives need no such
order, because ranks agree on one while they run; waiting for one before the next is submitted would take away their
overlap, and stop ranks whose programs differ in it.
"""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import auto_control_deps

_SIDE_BY_SIDE = frozenset(
    f"Paceline{op}"
    for op in (
        *("Allgather", "Allreduce", "AllreduceDone", "AllreduceStart", "Alltoall", "Broadcast", "Query"),
        "Reducescatter",
    )
)


@auto_control_deps.register_acd_resource_resolver
def _own_resource(op: Any, reads: Any, writes: Any) -> bool:
    """Give each collective a resource of its own, its output: TensorFlow orders ops that have resources by them."""
    if op.type not in _SIDE_BY_SIDE or op.outputs[0] in reads:
        return False
    reads.add(op.outputs[0])
    return True
