"""One pass over all calls of a model, forward and backward, which times each and sees what autograd keeps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from paceline.torch.freed_memory import Room, return_free_memory
from paceline.torch.partitioned.calls import run, tensors_in
from paceline.torch.partitioned.crowds import Clock
from paceline.torch.partitioned.graph import Graph, attribute


class Pass:
    """One pass over all calls. A call's backward follows its forward at once, so that little is kept.

    room: bytes by which the process may grow before what is free goes back to the system, as it does in the end.
    clock: of the seconds of each call.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Tensor], room: float = math.inf, clock: Clock = time.perf_counter
    ) -> None:
        self._graph, self._clock = graph, clock
        self._values: dict[fx.Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
        self._flags: dict[fx.Node, bool] = {}
        self._parameters = {_place(parameter) for parameter in graph.root.parameters()}
        self._kept: dict[fx.Node, int] = {}  # bytes of values that autograd keeps
        self._inner: list[int] = []  # bytes that it keeps of what only exists within a call
        self.forward: list[float] = []
        self.backward: list[float] = []
        self.seen: list[Any] = []
        growth = Room(room)
        for index, call in enumerate(graph.calls):
            self._call(call)
            growth.keep()
            for node in call.all_input_nodes:
                if graph.last_use[node] == index and node.op != "get_attr":
                    del self._values[node]
        return_free_memory()  # the allocator's pieces of ResNet-1001 with 8 images are 300 to 700 MiB

    def saved(self, index: int) -> int:
        """The bytes that are kept for a call's backward."""
        return self._inner[index] + self._kept.get(self._graph.calls[index], 0)

    def _call(self, call: fx.Node) -> None:
        leaves: list[Tensor] = []
        given = {node: self._argument(node, leaves) for node in call.all_input_nodes}
        versions = {node: value._version for node, value in given.items() if isinstance(value, Tensor)}
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), given.__getitem__)
        saved: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            saved[_place(tensor)] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            begin = self._clock()
            result = run(self._graph.root, call, args, kwargs)
            self.forward.append(self._clock() - begin)
        changed = [node for node, version in versions.items() if given[node]._version != version]
        outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
        self.backward.append(self._backward(call, outputs, leaves))
        self._count_saved(call, given, result, saved)
        for node in changed:
            self._values[node] = given[node].detach()
        self._flags[call] = bool(outputs)
        self._values[call] = _mapped(result, _detached)
        self.seen.append(result.detach().to("meta") if isinstance(result, Tensor) else result)

    def _argument(self, node: fx.Node, leaves: list[Tensor]) -> Any:
        if node.op == "get_attr":
            return attribute(self._graph.root, str(node.target))

        def leaf(value: Any) -> Any:
            if not isinstance(value, Tensor) or not self._flags.get(node) or not value.is_floating_point():
                return value
            leaves.append(value.requires_grad_())
            return value.clone()  # so that the call may change it in place

        return _mapped(self._values[node], leaf)

    def _backward(self, call: fx.Node, outputs: list[Tensor], leaves: list[Tensor]) -> float:
        wanted = [*leaves, *(tensor for tensor in self._graph.tensors(call) if tensor.requires_grad)]
        if not outputs or not wanted:
            return 0.0
        gradients = [torch.ones_like(output) for output in outputs]
        begin = self._clock()
        torch.autograd.grad(outputs, wanted, gradients, allow_unused=True)
        return self._clock() - begin

    def _count_saved(self, call: fx.Node, given: dict[fx.Node, Any], result: Any, saved: dict[int, int]) -> None:
        for node, value in (*given.items(), (call, result)):
            for tensor in tensors_in(value):
                if (size := saved.pop(_place(tensor), 0)) and node.op != "get_attr":
                    self._kept[node] = max(size, self._kept.get(node, 0))
        self._inner.append(sum(size for place, size in saved.items() if place not in self._parameters))


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Structures with `function` of what is in them; a torch.Size as it is."""
    return tree_map(function, value, is_leaf=lambda one: isinstance(one, torch.Size))


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
