"""Finding the calls of a model's forward: which classes of modules can be traced, and which stay whole."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from paceline.torch.partitioned.attributes import fixed, hooked
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.module_state import ModuleState, preserved
from paceline.torch.partitioned.tracer import CONSTANT, Hidden, Tracer, line_of


def trace(model: nn.Module, arguments: int, whole: set[type[nn.Module]] | None = None) -> Graph:
    """The calls of `model` with so many positional arguments, found by symbolic tracing.

    A class of modules whose forward can't be traced, or does something else in training than it does otherwise, is one
    call, and is added to `whole`. The model, and random numbers, stay as they are. Raises HybridError if the model's
    own forward is such a one.
    """
    whole = set() if whole is None else whole
    if hooked(model):
        raise HybridError(
            f"{type(model).__name__} itself has hooks, which partitions would not call: "
            "register them on modules that it calls"
        )
    if _hooked_everywhere():
        raise HybridError("there are hooks of all modules, which partitions would not call as often: remove them first")
    for name in [name for name in vars(model) if name.startswith(CONSTANT)]:
        delattr(model, name)  # of an earlier trace
    with preserved(model), torch.enable_grad():
        while True:
            model.train()
            trained = _traced(model, arguments, whole)
            model.eval()
            differing = _differing(model, trained, _traced(model, arguments, whole))
            if differing is None:
                break
            keep_whole(differing, model, whole, "reads self.training")
    for name, value in trained.constants.items():
        setattr(model, name, value)
    tracer = trained.tracer
    calls = tuple(node for node in trained.graph.nodes if node.op.startswith("call_"))
    return Graph(model, tracer.inputs, calls, tracer.output, tracer.code)


class _Traced(NamedTuple):
    """constants: tensors that the code has made, under their names in the graph."""

    graph: fx.Graph
    tracer: Tracer
    constants: dict[str, Tensor]


def keep_whole(module: nn.Module, model: nn.Module, whole: set[type[nn.Module]], reason: str) -> None:
    """Let a module's class be one call. Raises HybridError if that is the model itself, or already so.

    reason: what its forward does.
    """
    if module is model:
        raise HybridError(
            f"the forward of {type(model).__name__} itself {reason}: move that part into a module that it calls"
        )
    if type(module) in whole:
        raise HybridError(f"the forward of {type(module).__name__} {reason}, which partitions can't do")
    whole.add(type(module))


def _traced(model: nn.Module, arguments: int, whole: set[type[nn.Module]]) -> _Traced:
    while True:
        tracer, state = Tracer(arguments, whole), ModuleState(model.modules())
        try:
            graph = tracer.trace(model)
        except HybridError:
            raise
        except Hidden as found:
            keep_whole(found.module, model, whole, found.reason)
        except Exception as error:
            failed = tracer.failed or model
            if failed is model or type(failed) in whole:
                raise HybridError(
                    f"the forward of {type(failed).__name__} can't be traced ({_first_line(error)}): "
                    "move what depends on values of tensors into modules that it calls"
                ) from error
            whole.add(type(failed))
        else:
            constants = {name: vars(model).pop(name) for name in list(vars(model)) if name.startswith(CONSTANT)}
            changed = _changed(state, tracer)
            if changed is None:
                return _Traced(graph, tracer, constants)
            keep_whole(changed, model, whole, f"changes what an attribute holds ({line_of(changed)})")
        state.restore()


def _changed(state: ModuleState, tracer: Tracer) -> nn.Module | None:
    """A module whose code has changed an attribute's elements or object while it was traced."""
    for read, owner in tracer.code.reads.values():
        if read.changed:
            return owner
    return next(iter(state.changed()), None)


def _differing(model: nn.Module, one: _Traced, other: _Traced) -> nn.Module | None:
    """The innermost module whose code differs between two traces."""
    for mine, their in zip_longest(one.graph.nodes, other.graph.nodes):
        if mine is None or their is None or _described(mine, one) != _described(their, other):
            for traced, node in ((one, mine), (other, their)):
                if node is not None and node in traced.tracer.code.owners:
                    return traced.tracer.code.owners[node]
            return model
    return None


def _described(node: fx.Node, traced: _Traced) -> object:
    """Describe what a node does, but not who uses it."""

    def argument(value: Any) -> Any:
        if isinstance(value, fx.Node) and value.target in traced.constants:
            return fixed(traced.constants[value.target].tolist())
        return value.name if isinstance(value, fx.Node) else value

    return node.op, str(node.target), repr(fx.node.map_aggregate((node.args, node.kwargs), argument))


def _hooked_everywhere() -> bool:
    hooks: Iterable[object] = (
        nn.modules.module._global_forward_hooks,
        nn.modules.module._global_forward_pre_hooks,
        nn.modules.module._global_backward_hooks,
        nn.modules.module._global_backward_pre_hooks,
    )
    return any(hooks)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
