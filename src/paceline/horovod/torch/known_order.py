"""For the policy `graph`: announces the order of an optimizer's gradients to the coordinator in advance."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from paceline.coordinate import Coordinator
from paceline.order import Collective, order, parallel, scheme


def announce_order(coordinator: Coordinator, gradients: Iterable[tuple[str, Tensor]]) -> None:
    """Announce that the gradients come in the reverse of the given order. Collective: every rank announces the same.

    gradients: pairs of a request name and a tensor.

    No gradient waits for another rank's, so the graph has no edges and any order is valid. The reverse order
    approximates a backward pass, which computes the last layers first.
    """
    graph = parallel(
        Collective(name, tensor.nbytes, str(tensor.dtype).removeprefix("torch."))
        for name, tensor in reversed(list(gradients))
    )
    coordinator.set_order(scheme(graph, order(graph), coordinator.options.graph_bytes).buffers)
