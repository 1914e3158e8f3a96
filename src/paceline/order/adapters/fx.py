"""Turn torch.fx and torch.export graphs into plain graphs.

Their collectives are torch.distributed's operators and SyncBatchNorm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.order.graph import Collective, Graph, Node

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d")
_KINDS = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "allgather": "all_gather",
    "allgather_base": "all_gather",
    "allgather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}
"""The kind of each operator, by its name without the marks of operators that work in place or are coalesced."""
_WAIT = "wait_tensor"


class Traced(Protocol):
    """A torch.fx.GraphModule or a torch.export.ExportedProgram."""

    @property
    def graph(self) -> fx.Graph:
        """The traced operations, in program order."""
        ...


def graph(traced: Traced) -> Graph:
    """Return the graph that one call executes, in program order; collectives have the names of their nodes.

    Beside its inputs, a node needs the last node that wrote into one of them. The program runs in order and does
    nothing while it waits, so a collective also needs the last wait before it (wait_tensor, or a collective that waits
    by itself): two collectives with a wait between them cannot be fused, although no data flows between them.
    """
    nodes: list[Node] = []
    edges: list[tuple[int, int]] = []
    place: dict[fx.Node, int] = {}
    memory: dict[fx.Node, fx.Node] = {}  # for each value, the value that it may be a view of
    written: dict[fx.Node, int] = {}  # for each memory, the node that last wrote there
    wait: int | None = None
    for index, node in enumerate(traced.graph.nodes):
        place[node] = index
        memory[node] = memory[viewed] if (viewed := _viewed(node)) is not None else node
        needed = dict.fromkeys(place[one] for one in node.all_input_nodes)
        needed.update(dict.fromkeys(written[memory[one]] for one in node.all_input_nodes if memory[one] in written))
        collective = _collective(node, traced)
        waits = _operator(node) == _WAIT or (collective is not None and _waits_itself(node))
        if wait is not None and (collective is not None or waits):
            needed[wait] = None
        edges.extend((one, index) for one in needed)
        for one in _written(node):
            written[memory[one]] = index
        if waits:
            wait = index
        nodes.append(Node(node.name, collective))
    return Graph(tuple(nodes), tuple(edges), tuple(range(len(nodes))))


def _operator(node: fx.Node) -> str:
    """The name of one of torch.distributed's operators, "" for anything else."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in _NAMESPACES:
        return ""
    return target._schema.name.partition("::")[2]


def _waits_itself(node: fx.Node) -> bool:
    """Return whether the node is not functional: SyncBatchNorm, or a torch.distributed call with an untraced wait."""
    return node.op == "call_module" or (
        isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "c10d"
    )


def _collective(node: fx.Node, traced: Traced) -> Collective | None:
    if node.op == "call_module":
        return _sync_batch_norm(node, traced)
    name = _operator(node)
    kind = _KINDS.get(name.strip("_").removesuffix("_coalesced").removesuffix("_out"))
    if kind is None:
        return None
    given = dict(_arguments(node))
    source = next((value for name, value in given.items() if name.startswith("input")), node.args[0])
    tensors = list(_tensors(source))
    reduction = given.get("reduce_op")
    op = reduction if isinstance(reduction, str) else ""  # tracing hides it where the call waits itself
    dtypes = "+".join(dict.fromkeys(str(one.dtype).removeprefix("torch.") for one in tensors))
    return Collective(node.name, sum(one.nbytes for one in tensors), dtypes, op, kind)


def _sync_batch_norm(node: fx.Node, traced: Traced) -> Collective | None:
    """The all-gather of each rank's mean, deviation and count, in torch's SyncBatchNorm or paceline.horovod.torch's."""
    module = traced.get_submodule(str(node.target)) if isinstance(traced, nn.Module) else None
    if not isinstance(module, _BatchNorm) or type(module).__name__ != "SyncBatchNorm":
        return None
    item = torch.get_default_dtype() if module.weight is None else module.weight.dtype
    nbytes = (2 * module.num_features + 1) * item.itemsize
    return Collective(node.name, nbytes, str(item).removeprefix("torch."), "", "all_gather")


def _arguments(node: fx.Node) -> Iterator[tuple[str, Any]]:
    """The arguments of an operator with their names."""
    assert isinstance(node.target, torch._ops.OpOverload)
    yield from zip((one.name for one in node.target._schema.arguments), node.args, strict=False)
    yield from node.kwargs.items()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument, as far as tracing knows them."""
    if isinstance(value, fx.Node):
        found = value.meta.get("val")
        yield from [found] if isinstance(found, torch.Tensor) else ()
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def _viewed(node: fx.Node) -> fx.Node | None:
    """The input of which the result may be a view: by the schema of an operator, else the first input."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return next(iter(node.all_input_nodes), None)
    schema = node.target._schema
    if all(one.alias_info is None for one in schema.returns):
        return None
    given = dict(_arguments(node))
    aliased = (given.get(one.name) for one in schema.arguments if one.alias_info is not None)
    return next((one for value in aliased for one in _values(value)), None)


def _written(node: fx.Node) -> Iterable[fx.Node]:
    """The inputs that this node writes into."""
    if isinstance(node.target, torch._ops.OpOverload):
        given = dict(_arguments(node))
        for one in node.target._schema.arguments:
            if one.alias_info is not None and one.alias_info.is_write:
                yield from _values(given.get(one.name))
    elif node.op == "call_method" and str(node.target).endswith("_") and not str(node.target).endswith("__"):
        yield from _values(node.args[0])


def _values(value: Any) -> Iterator[fx.Node]:
    if isinstance(value, fx.Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _values(one)
