"""TorchState holds models, optimizers, samplers and plain objects as one state."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from paceline.horovod.basics import rank
from paceline.horovod.elastic import ObjectState
from paceline.horovod.torch.elastic.sampler import ElasticSampler
from paceline.horovod.torch.objects import broadcast_object
from paceline.horovod.torch.parameters import broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """Saves, restores and synchronises one object that has a `state_dict`."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Copy the object's present state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Load the state that was saved last."""
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        """Give every rank rank 0's state, and save it. Collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Handle another object from now on, and save its state."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Handles a model."""

    def sync(self) -> None:
        """Give every rank rank 0's parameters and buffers, and save them. Collective."""
        _forget_gradients(self.value.parameters())
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()

    def restore(self) -> None:
        """Load the parameters and buffers that were saved last, and forget gradients, which belong to later ones."""
        super().restore()
        _forget_gradients(self.value.parameters())


class OptimizerStateHandler(StateHandler):
    """Handles an optimizer."""

    def sync(self) -> None:
        """Give every rank rank 0's optimizer state, and save it. Collective."""
        _forget_gradients(_parameters(self.value))
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()

    def restore(self) -> None:
        """Load the state that was saved last, and forget gradients, which belong to a later one."""
        super().restore()
        _forget_gradients(_parameters(self.value))


class SamplerStateHandler(StateHandler):
    """Handles an ElasticSampler."""

    def sync(self) -> None:
        """Give every rank rank 0's position in the epoch, and save it. Collective."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


_HANDLERS: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _forget_gradients(parameters: Iterable[Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None


class TorchState(ObjectState):
    """`TorchState(model=..., optimizer=..., sampler=..., batch=0, epoch=0)` makes every argument an attribute.

    It takes any number of models, optimizers and ElasticSamplers, under any names; everything else is plain data.
    """

    def __init__(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any
    ) -> None:
        given = {**kwargs, "model": model, "optimizer": optimizer}
        self._handlers: dict[str, StateHandler] = {}
        plain = {}
        for name, value in given.items():
            handler = next((handler for kind, handler in _HANDLERS if isinstance(value, kind)), None)
            if handler is None:
                plain[name] = value
            else:
                self._handlers[name] = handler(value)
                object.__setattr__(self, name, value)
        super().__init__(broadcast_object, rank, **plain)

    def save(self) -> None:
        """Keep the present state of all objects in memory."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Restore the state of all objects that was saved last."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Give every rank rank 0's state of all objects. Collective."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        """Let the samplers share what is left of the epoch among the ranks of the new job."""
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def _copied(self, values: dict[str, Any]) -> dict[str, Any]:
        try:
            return super()._copied(values)
        except RuntimeError:  # torch copies no tensor that a graph leads to
            plain: dict[str, Any] = tree_map_only(Tensor, Tensor.detach, values)
            return super()._copied(plain)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)
