"""Policy `graph`: the order of an optimizer's gradients is told to the coordinator beforehand."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from paceline.coordinate import Coordinator
from paceline.order import Collective, order, parallel, scheme


def tell_order(coordinator: Coordinator, gradients: Iterable[tuple[str, Tensor]]) -> None:
    """Every rank tells the same: gradients, by the names of their requests, come in the reverse of this order.

    No gradient waits for another rank's, so the graph has no edges and any order is right; this one is about that of a
    backward pass, in which the last layers come first.
    """
    graph = parallel(
        Collective(name, tensor.nbytes, str(tensor.dtype).removeprefix("torch."))
        for name, tensor in reversed(list(gradients))
    )
    coordinator.set_order(scheme(graph, order(graph), coordinator.options.fusion_bytes).buffers)
