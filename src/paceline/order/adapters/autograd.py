"""Turn the backward pass that torch's autograd recorded into a graph in which each parameter's gradient is all-reduced.

torch knows this graph only after a forward pass, so a program takes it from its first step and keeps the scheme.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.autograd.graph import Node as Function

from paceline.order.fuse import FUSION_BYTES, Scheme, scheme
from paceline.order.graph import Collective, Graph, Node
from paceline.order.number import order


def graph(outputs: Tensor | Iterable[Tensor], parameters: Iterable[tuple[str, Tensor]], op: str = "sum") -> Graph:
    """Return the graph that `backward()` of the outputs executes.

    parameters: (name, parameter) as from `model.named_parameters()`; their gradients are all-reduced under these names.
    Parameters on which the outputs do not depend are left out. Raises ValueError for outputs without a grad_fn.
    """
    tensors = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    roots = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    if not roots:
        raise ValueError("none of the outputs has a grad_fn: take them from a forward pass with gradients enabled")
    names = {id(parameter): (name, parameter) for name, parameter in parameters}
    nodes: list[Node] = []
    edges: list[tuple[int, int]] = []
    place: dict[Function, int] = {}
    stack = list(reversed(roots))
    for root in stack:
        _add(root, place, nodes)
    fetches: list[int] = []
    seen: set[Function] = set()
    while stack:
        function = stack.pop()
        if function in seen:
            continue
        seen.add(function)
        parent = place[function]
        following = [after for after, _ in function.next_functions if after is not None]
        for after in following:
            edges.append((parent, _add(after, place, nodes)))
        stack.extend(reversed(following))
        name, parameter = names.get(id(getattr(function, "variable", None)), ("", None))
        if parameter is not None:
            fetches.append(len(nodes))
            edges.append((parent, len(nodes)))
            nodes.append(Node(name, _all_reduce(name, parameter, op)))
    return Graph(tuple(nodes), tuple(edges), tuple(fetches))


def model_scheme(
    model: nn.Module,
    outputs: Tensor | Iterable[Tensor],
    fusion_bytes: int = FUSION_BYTES,
    op: str = "sum",
    prefix: str = "",
) -> Scheme:
    """Return the fusion scheme for the gradients of a model.

    A gradient's name is `prefix` and its parameter's name in `model.named_parameters()`; the requests of
    paceline.horovod.torch's DistributedOptimizer have the prefix "allreduce.". fusion_bytes: bytes of a fusion buffer.
    Raises ValueError for outputs without a grad_fn.
    """
    named = ((f"{prefix}{name}", parameter) for name, parameter in model.named_parameters())
    found = graph(outputs, named, op)
    return scheme(found, order(found), fusion_bytes)


def _add(function: Function, place: dict[Function, int], nodes: list[Node]) -> int:
    index = place.setdefault(function, len(nodes))
    if index == len(nodes):
        nodes.append(Node(f"{function.name()} {index}"))
    return index


def _all_reduce(name: str, parameter: Tensor, op: str) -> Collective:
    return Collective(name, parameter.nbytes, str(parameter.dtype).removeprefix("torch."), op)
