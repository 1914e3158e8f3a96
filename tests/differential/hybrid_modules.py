"""The modules of a drawn model: torch's, and classes whose forward does drawn statements."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hybrid_programs import WIDTH, Module, Statement
from hybrid_statements import STATEMENTS
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils._pytree import tree_map

Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    """Values in a data class."""

    logits: Tensor
    others: list[Tensor]


class Own(nn.Module):
    """A module with a drawn forward."""

    def __init__(self, module: Module, builder: Builder) -> None:
        super().__init__()
        self.module = module
        self.own, self.table = nn.Linear(WIDTH, WIDTH), nn.Embedding(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.rand(WIDTH))
        self.register_buffer("shift", torch.rand(WIDTH))
        self.register_buffer("steady", torch.rand(WIDTH), persistent=False)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.parts = nn.ModuleList(builder.made(part) for part in module.parts)
        self.calls, self.history = 0, [0]
        self.listed = [self.own.weight]
        self.others = builder.linears[:1]

    def forward(self, *given: Tensor) -> Any:
        values = list(given)
        for statement in self.module.statements:
            values += self._done(statement, values)
        return self._returned(values)

    def called(self, number: int, value: Any) -> list[Any]:
        """The values that one of its parts makes of one."""
        place = number % len(self.parts)
        kind, result = self.module.parts[place], self.parts[place]
        if kind.kind == "lstm":
            return [result(value.unsqueeze(1))[0].squeeze(1)]
        if kind.kind == "attention":
            both = torch.stack([value, value * 2], 1)
            return [result(both, both, both, need_weights=False)[0][:, 0]]
        found = result(value)
        if kind.kind == "own" and kind.returned != "last":
            first, second = (0, 1) if kind.returned == "pair" else ("x", "y")
            return [found[first], found[second]]
        return [found]

    def _done(self, statement: Statement, values: list[Any]) -> list[Any]:
        one, other = (values[-1 - back % len(values)] for back in (statement.one, statement.other))
        found = STATEMENTS[statement.do](self, one, other, statement.part)
        return found if isinstance(found, list) else [found]

    def _returned(self, values: list[Any]) -> Any:
        last, before = values[-1], values[-2 % len(values)]
        returned: dict[str, Callable[[], Any]] = {
            "last": lambda: last,
            "pair": lambda: (last, before),
            "dictionary": lambda: {"x": last, "y": before},
            "named": lambda: Pair(last, before),
            "data class": lambda: Output(last, [before]),
            "nested": lambda: {"a": (last, [before])},
            "numbers": lambda: (last, before.size(0), 0.5),
            "weight": lambda: (last, self.own.weight),
            "twice": lambda: (last, last),
        }
        return returned[self.module.returned]()


class Builder:
    """Makes modules; each own one has a class of its own. linears: those made so far, which later ones may share."""

    def __init__(self) -> None:
        self.linears: list[nn.Linear] = []
        self._classes = 0

    def made(self, module: Module) -> nn.Module:
        """The module, with its hook."""
        found = self._own(module) if module.kind == "own" else self._leaf(module.kind)
        if module.hook is not None:
            _hook(found, module.hook)
        return found

    def _own(self, module: Module) -> nn.Module:
        self._classes += 1
        found: nn.Module = type(f"Own{self._classes}", (Own,), {})(module, self)
        return found

    def _leaf(self, kind: str) -> nn.Module:
        if "linear" in kind or kind in ("spectral norm", "weight norm"):
            return self._linear(kind)
        makes: dict[str, Callable[[], nn.Module]] = {
            "batch norm": lambda: nn.BatchNorm1d(WIDTH),
            "cumulative batch norm": lambda: nn.BatchNorm1d(WIDTH, momentum=None),
            "layer norm": lambda: nn.LayerNorm(WIDTH),
            "dropout": lambda: nn.Dropout(0.4),
            "alpha dropout": lambda: nn.AlphaDropout(0.3),
            "rrelu": nn.RReLU,
            "relu in place": lambda: nn.ReLU(inplace=True),
            "tanh": nn.Tanh,
            "prelu": nn.PReLU,
            "sequential": lambda: nn.Sequential(self._linear("linear"), nn.Dropout(0.2), nn.GELU()),
            "attention": lambda: nn.MultiheadAttention(WIDTH, 2, dropout=0.2, batch_first=True),
            "lstm": lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True),
        }
        return makes[kind]()

    def _linear(self, kind: str) -> nn.Module:
        made = nn.Linear(WIDTH, WIDTH, bias=kind != "linear without bias")
        if kind == "tied linear" and self.linears:
            made.weight = self.linears[-1].weight
        if kind == "frozen linear":
            return made.requires_grad_(False)
        if kind in ("spectral norm", "weight norm"):
            found: nn.Module = getattr(parametrizations, kind.replace(" ", "_"))(made)
            return found
        self.linears.append(made)
        return made


def made(model: Module, seed: int, dtype: torch.dtype) -> nn.Module:
    """The model after this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Builder().made(model).to(dtype)


def _hook(module: nn.Module, kind: str) -> None:
    if kind == "forward":
        module.register_forward_hook(lambda _, given, result: _scaled(result))
    elif kind == "forward_pre":
        module.register_forward_pre_hook(lambda _, given: _scaled(given))
    elif kind == "full_backward":
        module.register_full_backward_hook(lambda _, given, taken: _scaled(given))
    for parameter in module.parameters():
        if kind == "parameter" and parameter.requires_grad:
            parameter.register_hook(lambda gradient: gradient * 2)
        if kind == "accumulated" and parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(_seen)


def _seen(parameter: Tensor) -> None:
    """Changes nothing: a change would depend on the order of the microbatches' backwards, which schedules choose."""
    assert parameter.grad is not None


def _scaled(values: Any) -> Any:
    return tree_map(lambda one: one * 1.5 if isinstance(one, Tensor) else one, values)
