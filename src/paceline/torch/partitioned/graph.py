"""A model's forward as a list of calls: its modules, and what its code does between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, fx, nn

from paceline.torch.partitioned.errors import HybridError

_CONTAINERS = (nn.Sequential, nn.TransformerDecoder, nn.TransformerEncoder)
"""Modules of torch's whose forward only calls their children; all its others count as one call."""


@dataclass(frozen=True)
class Graph:
    """Calls in the order in which the model's forward makes them. A cut lies after a call, or before all of them.

    inputs: the model's arguments. output: its result, a structure of nodes and constants.
    """

    root: nn.Module
    inputs: tuple[fx.Node, ...]
    calls: tuple[fx.Node, ...]
    output: Any

    @cached_property
    def last_use(self) -> dict[fx.Node, int]:
        """The last call that uses a value; the number of calls if the model returns it."""
        found: dict[fx.Node, int] = {}
        for index, call in enumerate(self.calls):
            found.update(dict.fromkeys(call.all_input_nodes, index))
        found.update(dict.fromkeys(self.returned, len(self.calls)))
        return found

    @property
    def names(self) -> list[str]:
        """The calls' names: of the model's module, or of what else the call does, numbered if there are several."""
        return [str(call.target) if call.op == "call_module" else call.name for call in self.calls]

    @property
    def returned(self) -> tuple[fx.Node, ...]:
        """The values that the model returns, each once."""
        found: dict[fx.Node, None] = {}
        fx.node.map_arg(self.output, lambda node: found.setdefault(node))
        return tuple(found)

    def structured(self, returned: Sequence[Any]) -> Any:
        """The model's result with these in place of the values that it returns."""
        return _filled(self.output, dict(zip(self.returned, returned, strict=True)))

    def crossing(self, cut: int) -> tuple[fx.Node, ...]:
        """The values that exist before call `cut` and are used by it or later, in the order in which they came up."""
        known = (*self.inputs, *self.calls[:cut])
        return tuple(node for node in known if self.last_use.get(node, -1) >= cut)

    def targets(self, call: fx.Node) -> Iterator[str]:
        """The names of the modules and tensors of the model that a call needs."""
        if call.op == "call_module":
            yield str(call.target)
        yield from (str(node.target) for node in call.all_input_nodes if node.op == "get_attr")

    def tensors(self, call: fx.Node) -> Iterator[Tensor]:
        """The parameters and buffers of the model that a call needs."""
        for target in self.targets(call):
            found = attribute(self.root, target)
            if isinstance(found, nn.Module):
                yield from found.parameters()
                yield from found.buffers()
            elif isinstance(found, Tensor):
                yield found


def _filled(structure: Any, found: Mapping[fx.Node, Any]) -> Any:
    if isinstance(structure, fx.Node):
        return found[structure]
    if isinstance(structure, dict):
        return {key: _filled(value, found) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        parts = [_filled(value, found) for value in structure]
        return tuple(parts) if isinstance(structure, tuple) else parts
    return structure


def attribute(root: nn.Module, target: str) -> object:
    """The module, parameter or buffer of this qualified name."""
    found: object = root
    for part in target.split("."):
        found = getattr(found, part)
    return found


def trace(model: nn.Module, arguments: int) -> Graph:
    """The calls of `model` with so many positional arguments, found by symbolic tracing.

    A class of modules whose forward can't be traced, or does something else in training than it does otherwise, is one
    call. Raises HybridError if the model's own forward is such a one.
    """
    whole: set[type[nn.Module]] = set()
    training = [module.training for module in model.modules()]
    try:
        while True:
            model.train()
            graph = _traced(model, arguments, whole)
            model.eval()
            other = _traced(model, arguments, whole)
            differing = _differing(model, graph, other)
            if differing is None:
                return _graph(model, graph)
            _keep_whole(differing, model, whole, "reads self.training")
    finally:
        for module, mode in zip(model.modules(), training, strict=True):
            module.training = mode


class _Tracer(fx.Tracer):
    def __init__(self, arguments: int, whole: set[type[nn.Module]]) -> None:
        super().__init__()
        self._arguments = arguments
        self._whole = whole
        self.inside: list[nn.Module] = []
        self.failed: nn.Module | None = None
        self.inputs: tuple[fx.Node, ...] = ()
        self.owners: dict[fx.Node, nn.Module] = {}

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        """Leave out the arguments that nobody passes, which then have their defaults."""
        function, (root, *proxies) = super().create_args_for_root(root_fn, is_module, concrete_args)
        self.inputs = tuple(proxy.node for proxy in proxies[: self._arguments])
        return function, [root, *proxies[: self._arguments]]

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if type(m) in self._whole:
            return True
        return type(m).__module__.startswith("torch.nn") and not isinstance(m, _CONTAINERS)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        self.inside.append(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.failed = self.failed or m
            raise
        finally:
            self.inside.pop()

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        callers = self.inside[:-1] if node.op == "call_module" else self.inside
        if callers:
            self.owners[node] = callers[-1]
        return node


def _traced(model: nn.Module, arguments: int, whole: set[type[nn.Module]]) -> tuple[fx.Graph, _Tracer]:
    while True:
        tracer = _Tracer(arguments, whole)
        try:
            return tracer.trace(model), tracer
        except Exception as error:
            if tracer.failed is None:
                raise HybridError(
                    f"the forward of {type(model).__name__} can't be traced ({_first_line(error)}): "
                    "move what depends on values of tensors into modules that it calls"
                ) from error
            whole.add(type(tracer.failed))


def _differing(model: nn.Module, one: tuple[fx.Graph, _Tracer], other: tuple[fx.Graph, _Tracer]) -> nn.Module | None:
    """The innermost module whose code differs between two traces."""
    ours, theirs = list(one[0].nodes), list(other[0].nodes)
    for mine, their in zip(ours, theirs, strict=False):
        if mine.format_node() != their.format_node():
            return one[1].owners.get(mine, model)
    return model if len(ours) != len(theirs) else None


def _keep_whole(module: nn.Module, model: nn.Module, whole: set[type[nn.Module]], reason: str) -> None:
    if module is model:
        raise HybridError(
            f"the forward of {type(model).__name__} itself {reason}: move that part into a module that it calls"
        )
    whole.add(type(module))


def _graph(model: nn.Module, traced: tuple[fx.Graph, _Tracer]) -> Graph:
    nodes = list(traced[0].nodes)
    calls = tuple(node for node in nodes if node.op.startswith("call_"))
    return Graph(model, traced[1].inputs, calls, nodes[-1].args[0])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
