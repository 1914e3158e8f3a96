"""The properties that a partitioned model took over when it was made, and must find so in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from paceline.torch.partitioned.attributes import hooked
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.graph import Graph, attribute
from paceline.torch.partitioned.values import Value


class Autocast(NamedTuple):
    """The state of torch's autocast for the CPU: whether it is on, and to which dtype."""

    enabled: bool
    dtype: torch.dtype | None

    @staticmethod
    def now() -> Autocast:
        """As it is here."""
        enabled = torch.is_autocast_enabled("cpu")
        return Autocast(enabled, torch.get_autocast_dtype("cpu") if enabled else None)

    def __str__(self) -> str:
        return f"under autocast to {str(self.dtype).removeprefix('torch.')}" if self.enabled else "without autocast"


class FixedForGood:
    """Attributes and hooks of the traced code's modules, tensors that it reads, and autocast, as they are now.

    inputs: what the model takes. alone: whether there is one stage, which takes inputs of any shape.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Value], alone: bool) -> None:
        self._root, self._inputs, self._alone = graph.root, inputs, alone
        self._reads = [read for read, _ in graph.code.reads.values()]
        self._inlined = list(graph.code.inlined)
        names = {str(node.target) for call in graph.calls for node in call.all_input_nodes if node.op == "get_attr"}
        self._tensors = [(name, attribute(graph.root, name)) for name in names]
        self._autocast = Autocast.now()

    def check(self) -> None:
        """Raise HybridError if it is not so any more."""
        if (now := Autocast.now()) != self._autocast:
            raise HybridError(
                f"the model was divided {self._autocast} and is now used {now}: call hybrid where it is used"
            )
        for read in self._reads:
            if read.changed:
                raise HybridError(
                    f"{read} was {read.shown} when the model was divided, and partitions go on with that: keep what "
                    "changes in a buffer that is changed in place, or call hybrid again"
                )
        for name, tensor in self._tensors:
            if attribute(self._root, name) is not tensor:
                raise HybridError(f"{name} is another tensor than when the model was divided: change it in place")
        for module in self._inlined:
            if hooked(module):
                raise HybridError(
                    f"{type(module).__name__} has got hooks since the model was divided: register them before that"
                )

    def check_inputs(self, inputs: Sequence[Tensor]) -> None:
        """Raise HybridError unless these have the shapes of the example's, but for the number of samples."""
        if self._alone:
            return
        shapes = [[*value.shape(len(one))] for value, one in zip(self._inputs, inputs, strict=False)]
        found = [[*one.shape] for one in inputs]
        dtypes = [value.torch_dtype for value in self._inputs], [one.dtype for one in inputs]
        if found != shapes or len(inputs) != len(self._inputs):
            wanted = ", ".join(str(["N", *value.shape(1)[1:]]).replace("'", "") for value in self._inputs)
            raise HybridError(
                f"inputs have the shapes of the example's, {wanted}, with any N, because partitions expect activations "
                f"of these sizes: found {', '.join(map(str, found))}"
            )
        if dtypes[0] != dtypes[1]:
            raise HybridError(f"inputs have the dtypes of the example's, {dtypes[0]}: found {dtypes[1]}")
