"""One forward of a model, and one of its traced calls, as what can be compared of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, fx, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from paceline.torch.partitioned.graph import Graph, Returned, attribute
from paceline.torch.partitioned.history import history
from paceline.torch.partitioned.module_state import STRUCTURE, ModuleState, RandomStates, seed
from paceline.torch.partitioned.outline import outline, outlines
from paceline.torch.partitioned.structure import leaves, replaced
from paceline.torch.partitioned.tracer import ATTRIBUTE, CONSTANT, foreign_numbers, line_of
from paceline.torch.partitioned.unsaved import unsaved
from paceline.torch.partitioned.walk import Values, walk


class Event(NamedTuple):
    """A module's call has returned. caller: whose code made it, at this line. results: outlines."""

    module: nn.Module
    caller: nn.Module | None
    line: str
    results: tuple[object, ...]


class Run(NamedTuple):
    """The record of a run.

    results: outlines of what it returned. history: the way of its gradients. state: outlines of each module's buffers
    and attributes afterwards. numbers: the random generators.
    """

    events: list[Event]
    results: tuple[object, ...]
    history: list[object]
    state: list[object]
    numbers: RandomStates


Forward = Callable[[Graph, Sequence[Tensor], list[Event]], Any]


def of_model(graph: Graph, inputs: Sequence[Tensor], number: int) -> Run:
    """Run the model itself after this seed, and record it."""
    return _run(graph, inputs, number, _model)


def of_graph(graph: Graph, inputs: Sequence[Tensor], number: int) -> Run:
    """Run the model's traced calls after this seed, and record them."""
    return _run(graph, inputs, number, _graph)


def _run(graph: Graph, inputs: Sequence[Tensor], number: int, forward: Forward) -> Run:
    before = ModuleState(graph.root.modules())
    events: list[Event] = []

    def once() -> list[Any]:
        events.clear()
        seed(number)
        given = [tensor.clone() for tensor in inputs]  # the model may change them in place
        return list(leaves(forward(graph, given, events)))

    parts = unsaved(once, before.restore)
    names = {id(one): name for name, one in graph.root.named_parameters()}
    back = history([one for one in parts if isinstance(one, Tensor)], names)
    return Run(events, outlines(parts), back, list(map(_state, graph.root.modules())), RandomStates())


def _state(module: nn.Module) -> object:
    own = {name: one for name, one in vars(module).items() if name not in STRUCTURE and not name.startswith(CONSTANT)}
    return outline({**own, **module._buffers})


def _model(graph: Graph, inputs: Sequence[Tensor], events: list[Event]) -> Any:
    with _listening(graph, events):
        return graph.root(*inputs)


@contextmanager
def _listening(graph: Graph, events: list[Event]) -> Iterator[None]:
    """Note the calls of modules but for those inside of modules that are one call in the graph."""
    running: list[tuple[nn.Module, str]] = []
    within = 0
    numbers = RandomStates()

    def look(module: nn.Module) -> None:
        if numbers.others_changed:
            raise foreign_numbers(module)

    def enter(module: nn.Module, _: object) -> None:
        nonlocal within
        if running:
            look(running[-1][0])
        running.append((module, line_of(running[-1][0]) if running and not within else ""))
        within += within > 0 or module in graph.code.leaves

    def leave(module: nn.Module, _: object, result: object) -> None:
        nonlocal within
        look(module)
        _, line = running.pop()
        within -= within > 0
        if not within and module is not graph.root:
            events.append(Event(module, running[-1][0] if running else None, line, outlines(leaves(result))))

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _graph(graph: Graph, inputs: Sequence[Tensor], events: list[Event]) -> Any:
    ends: dict[int, list[Returned]] = defaultdict(list)
    until = dict(graph.last_use)
    for one in graph.code.returned:
        if one.module in graph.code.leaves:
            continue  # it is called, and heard of
        ends[one.calls].append(one)
        for node in one.result:
            if isinstance(node, fx.Node):
                until[node] = max(until.get(node, -1), one.calls - 1)

    def note(calls: int, values: Values) -> None:
        for module, _, result in ends[calls]:
            events.append(Event(module, None, "", outlines(_value(graph, values, one) for one in result)))

    with _listening(graph, events):
        values = walk(
            graph,
            inputs,
            lambda index, values: note(index + 1, values),
            lambda index, values: note(0, values) if index == 0 else None,
            until,
        )
    found = [_value(graph, values, node) for node in graph.returned]
    return replaced(graph.output, graph.returned, found)


def _value(graph: Graph, values: Values, one: Any) -> Any:
    if not isinstance(one, fx.Node):
        return one
    name = one.target if one.op == "get_attr" else one.meta.get(ATTRIBUTE)
    return attribute(graph.root, str(name)) if name is not None else values[one]
