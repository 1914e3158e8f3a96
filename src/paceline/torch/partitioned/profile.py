"""What each call of a model costs, measured call by call on example inputs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from paceline.calibration.torch import KEPT_FREE
from paceline.torch.partitioned.allocator import return_what_is_free
from paceline.torch.partitioned.calls import run, tensors_in
from paceline.torch.partitioned.graph import Graph, attribute
from paceline.torch.partitioned.values import Value, value_of
from paceline.torch.partitioned.whole import whole

_ROUNDS = 2
"""How often each call is timed; the fastest counts, because other processes only add to it."""


@dataclass(frozen=True)
class Call:
    """One call for a microbatch of the example's size.

    forward, backward: seconds. saved: bytes that autograd keeps for its backward. mutates: the names of the arguments
    that it changes in place. random: whether it draws random numbers.
    """

    forward: float
    backward: float
    saved: int
    mutates: tuple[str, ...]
    random: bool


@dataclass(frozen=True)
class Profile:
    """What was found of a model. inputs, results: the model's arguments, and the result of each call.

    samples: the size of the microbatch that was measured.
    """

    samples: int
    calls: tuple[Call, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]

    def dump(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def load(data: bytes) -> Profile:
        """What `dump` wrote."""
        read = json.loads(data)
        calls = tuple(Call(**{**call, "mutates": tuple(call["mutates"])}) for call in read["calls"])
        return Profile(read["samples"], calls, *(tuple(map(_value, read[key])) for key in ("inputs", "results")))


def profile(graph: Graph, example: Sequence[Tensor], samples: int, available: float) -> Profile:
    """Run the model's calls, forward and backward, on the first `samples` samples of `example`.

    available: bytes of memory; if they are enough for the whole model's forward and backward, these are timed too, and
    the calls' seconds are scaled so that they add up to that. One further forward has a sample more and shows which
    dimensions are those of the batch. Buffers and torch's random numbers are afterwards what they were. Raises what the
    model raises.
    """
    batch = example[0].shape[0]
    few, more = ([tensor[torch.arange(count) % batch] for tensor in example] for count in (samples, samples + 1))
    with _unchanged(graph.root):
        runs = [_run(graph, few) for _ in range(_ROUNDS)]
        other = _run(graph, more)
        first = runs[0]
        forward = [min(some) for some in zip(*(each.forward for each in runs), strict=True)]
        backward = [min(some) for some in zip(*(each.backward for each in runs), strict=True)]
        weights = sum(tensor.nbytes for tensor in graph.root.parameters())
        saved = sum(first.facts(index)[0] for index in range(len(graph.calls)))
        if KEPT_FREE * saved + 2 * weights < available:
            ahead, back = whole(graph, few)
            forward, backward = _scaled(forward, ahead), _scaled(backward, back)
    results = tuple(
        value_of(one, two, samples, flag)
        for one, two, flag in zip(first.seen, other.seen, first.differentiable, strict=True)
    )
    calls = tuple(
        Call(ahead, back, *first.facts(index))
        for index, (ahead, back) in enumerate(zip(forward, backward, strict=True))
    )
    inputs = tuple(value_of(one, two, samples, False) for one, two in zip(few, more, strict=True))
    return Profile(samples, calls, inputs, results)


def _scaled(seconds: Sequence[float], whole: float) -> list[float]:
    """The same shares of the whole."""
    found = sum(seconds)
    return [each * whole / found for each in seconds] if found else list(seconds)


def _run(graph: Graph, inputs: Sequence[Tensor]) -> _Run:
    made = _Run(graph, inputs)
    return_what_is_free()  # the allocator's pieces of ResNet-1001 with 8 images are 300 to 500 MiB after each pass
    return made


class _Run:
    """One pass over all calls. A call's backward follows its forward at once, so that little is kept."""

    def __init__(self, graph: Graph, inputs: Sequence[Tensor]) -> None:
        self._graph = graph
        self._values: dict[fx.Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
        self._flags: dict[fx.Node, bool] = {}
        self._parameters = {_place(parameter) for parameter in graph.root.parameters()}
        self._kept: dict[fx.Node, int] = {}  # bytes of values that autograd keeps
        self._inner: list[int] = []  # bytes that it keeps of what only exists within a call
        self.forward: list[float] = []
        self.backward: list[float] = []
        self.mutates: list[tuple[str, ...]] = []
        self.random: list[bool] = []
        self.seen: list[Any] = []
        self.differentiable: list[bool] = []
        for index, call in enumerate(graph.calls):
            self._call(call)
            for node in call.all_input_nodes:
                if graph.last_use[node] == index and node.op != "get_attr":
                    del self._values[node]

    def facts(self, index: int) -> tuple[int, tuple[str, ...], bool]:
        """Of a call: the bytes that are kept for its backward, what it mutates, whether it is random."""
        saved = self._inner[index] + self._kept.get(self._graph.calls[index], 0)
        return saved, self.mutates[index], self.random[index]

    def _call(self, call: fx.Node) -> None:
        leaves: list[Tensor] = []
        given = {node: self._argument(node, leaves) for node in call.all_input_nodes}
        versions = {node: value._version for node, value in given.items() if isinstance(value, Tensor)}
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), given.__getitem__)
        saved: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            saved[_place(tensor)] = tensor.untyped_storage().nbytes()
            return tensor

        state = torch.get_rng_state()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            begin = time.perf_counter()
            result = run(self._graph.root, call, args, kwargs)
            self.forward.append(time.perf_counter() - begin)
        self.random.append(not torch.equal(state, torch.get_rng_state()))
        changed = [node for node, version in versions.items() if given[node]._version != version]
        self.mutates.append(tuple(node.name for node in changed))
        outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
        self.backward.append(self._backward(call, outputs, leaves))
        self._count_saved(call, given, result, saved)
        for node in changed:
            self._values[node] = given[node].detach()
        self._flags[call] = bool(outputs)
        self.differentiable.append(isinstance(result, Tensor) and result.requires_grad)
        self._values[call] = fx.node.map_aggregate(result, _detached)
        self.seen.append(result.detach().to("meta") if isinstance(result, Tensor) else result)

    def _argument(self, node: fx.Node, leaves: list[Tensor]) -> Any:
        if node.op == "get_attr":
            return attribute(self._graph.root, str(node.target))

        def leaf(value: Any) -> Any:
            if not isinstance(value, Tensor) or not self._flags.get(node) or not value.is_floating_point():
                return value
            leaves.append(value.requires_grad_())
            return value.clone()  # so that the call may change it in place

        return fx.node.map_aggregate(self._values[node], leaf)

    def _backward(self, call: fx.Node, outputs: list[Tensor], leaves: list[Tensor]) -> float:
        wanted = [*leaves, *(tensor for tensor in self._graph.tensors(call) if tensor.requires_grad)]
        if not outputs or not wanted:
            return 0.0
        gradients = [torch.ones_like(output) for output in outputs]
        begin = time.perf_counter()
        torch.autograd.grad(outputs, wanted, gradients, allow_unused=True)
        return time.perf_counter() - begin

    def _count_saved(self, call: fx.Node, given: dict[fx.Node, Any], result: Any, saved: dict[int, int]) -> None:
        for node, value in (*given.items(), (call, result)):
            for tensor in tensors_in(value):
                if (size := saved.pop(_place(tensor), 0)) and node.op != "get_attr":
                    self._kept[node] = max(size, self._kept.get(node, 0))
        self._inner.append(sum(size for place, size in saved.items() if place not in self._parameters))


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _value(read: dict[str, Any]) -> Value:
    return Value(**{**read, "per_sample": tuple(read["per_sample"]), "constant": tuple(read["constant"])})


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        yield
    for buffer, values in kept:
        buffer.copy_(values)
