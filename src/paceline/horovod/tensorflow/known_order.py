"""For the policy `graph`: announces the order of a function's gradients to the coordinator while it is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.horovod import job
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.tensorflow.process_set import number_of
from paceline.order import Collective, order, scheme
from paceline.order.adapters.tensorflow import graph


def announce_order(tensors: Sequence[Any], results: Sequence[Any], process_set: ProcessSet) -> None:
    """Announce the order in which the graph of a function computes the gradients.

    Collective: every rank traces its first such function alike.

    tensors: the gradients that are submitted. results: what `allreduce_each` made of them in a graph.

    Does nothing with another policy, in an elastic job, whose ranks do not trace at the same time, and where an order
    is known already: a rank may trace again alone, and its order would then hold up everything.
    """
    coordinator = job.current().channel(number_of(process_set)).coordinator
    if coordinator.options.policy != "graph" or coordinator.ordered or job.worker() is not None:
        return
    if not all(tensor.shape.is_fully_defined() for tensor in tensors):
        return  # nobody knows yet what fits into a buffer
    # A collective is over with the second of its ops. Later gradients wait for the first, which only submits it.
    collectives = {
        result.op.name: Collective(
            f"allreduce.{result.op.inputs[-1].op.get_attr('names')[0].decode()}",
            tensor.shape.num_elements() * tensor.dtype.size,
            tensor.dtype.name,
        )
        for tensor, result in zip(tensors, results, strict=True)
    }
    plain = graph(results[0].graph.get_operations(), collectives)
    coordinator.set_order(scheme(plain, order(plain), coordinator.options.graph_bytes).buffers)
