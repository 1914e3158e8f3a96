"""A proof that the traced calls do what the model itself does: both are run on the example, and compared.

Symbolic tracing can't see all that a forward does: a branch on the type of a value, which is none while it is traced,
or what a class does behind Python's attributes. So the model and its graph are run once in its mode with each of two
seeds, and once in the other mode. Results of all modules, buffers and attributes must be the same, and autograd must
have recorded the same way back from the results to the parameters. That needs no backward, so that nothing is kept for
one: a model's gradients and activations need not fit into this rank's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from paceline.torch.freed_memory import returning
from paceline.torch.partitioned import runs
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.module_state import ModuleState, preserved
from paceline.torch.partitioned.outline import same
from paceline.torch.partitioned.trace import keep_whole, trace
from paceline.torch.partitioned.tracer import line_of

_SAMPLES = 2
"""Samples of the example, of which BatchNorm needs two."""
_SEEDS = (1, 2)


class _Difference(NamedTuple):
    """module: whose code does something else than its trace. reason: what, and where."""

    module: nn.Module
    reason: str


def proved(model: nn.Module, inputs: Sequence[Tensor], whole: set[type[nn.Module]]) -> Graph:
    """Return the model's calls, which do what the model does on the first samples of these inputs.

    A class of modules whose code does something else than was traced becomes one call, and is added to `whole`. The
    model, and random numbers, stay as they are. Raises HybridError if the model's own forward is such a one, and what
    the model raises.
    """
    few = [tensor.detach()[torch.arange(_SAMPLES) % tensor.shape[0]] for tensor in inputs]
    while True:
        graph = trace(model, len(inputs), whole)
        with preserved(model), returning(), torch.enable_grad():
            found = next(_differences(graph, few), None)
        if found is None:
            return graph
        keep_whole(found.module, model, whole, found.reason)


def _differences(graph: Graph, inputs: Sequence[Tensor]) -> Iterator[_Difference]:
    for number in _SEEDS:
        yield from _compared(graph, inputs, number)
    graph.root.train(not graph.root.training)
    yield from _compared(graph, inputs, _SEEDS[0])


def _compared(graph: Graph, inputs: Sequence[Tensor], number: int) -> Iterator[_Difference]:
    model = graph.root
    before = ModuleState(model.modules())
    theirs = runs.of_model(graph, inputs, number)
    before.restore()
    ours = runs.of_graph(graph, inputs, number)
    for mine, their in zip(ours.events, theirs.events, strict=False):
        caller = their.caller or model
        if mine.module is not their.module:
            yield _Difference(caller, f"calls other modules than its trace ({their.line})")
        if not same(mine.results, their.results):
            leaf = their.module in graph.code.leaves
            culprit = caller if leaf else their.module
            line = their.line if leaf else line_of(culprit)
            yield _Difference(culprit, f"does something else than its trace ({line})")
    if len(ours.events) != len(theirs.events):
        longer = max(ours.events, theirs.events, key=len)
        line = longer[min(len(ours.events), len(theirs.events))].line or line_of(model)
        yield _Difference(model, f"calls other modules than its trace ({line})")
    if not same(ours.results, theirs.results) or ours.history != theirs.history:
        yield _Difference(model, f"does something else than its trace ({line_of(model)})")
    for module, here, there in zip(model.modules(), ours.state, theirs.state, strict=True):
        if not same(here, there):
            yield _Difference(module, f"changes its attributes otherwise than its trace ({line_of(module)})")
    if ours.numbers.torch_differs(theirs.numbers):
        yield _Difference(model, f"draws random numbers otherwise than its trace ({line_of(model)})")
