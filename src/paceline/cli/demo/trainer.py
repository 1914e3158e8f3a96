"""One copy of the network and its training, the same for one process and for several."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from paceline.cli.demo.digits import Digits

LEARNING_RATE = 0.05


class Trainer:
    """Trains `module`, the network or DDP around it, with SGD: an epoch of warm-up, then cosine decay.

    steps: steps per epoch. after_backward: called between each `backward()` and the optimizer's step.
    """

    epochs: int
    """The number of epochs, which must be known after the first one."""

    def __init__(self, module: nn.Module, steps: int, after_backward: Callable[[], None] | None = None) -> None:
        self._module = module
        self._steps = steps
        self._done = 0
        self._after_backward = after_backward
        self._optimizer = torch.optim.SGD(
            module.parameters(), LEARNING_RATE, momentum=0.9, weight_decay=5e-4, fused=True
        )

    def epoch(self, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
        """Make one step for each batch and return the mean loss."""
        losses = [self._step(images, labels) for images, labels in batches]
        return torch.stack(losses).mean().item()

    def weights(self) -> Tensor:
        """Return all weights, float32 [n]."""
        return torch.cat([weight.detach().flatten() for weight in self._module.parameters()])

    def accuracy(self, digits: Digits) -> float:
        """Return the share of the test images that are recognised, from 0 to 1."""
        images, labels = digits.test()
        with torch.no_grad():
            right: Tensor = self._module(images).argmax(1) == labels
        return right.double().mean().item()

    def _step(self, images: Tensor, labels: Tensor) -> Tensor:
        self._optimizer.zero_grad()
        loss = cross_entropy(self._module(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._after_backward:
            self._after_backward()
        self._optimizer.param_groups[0]["lr"] = LEARNING_RATE * self._share_of_rate()
        self._optimizer.step()
        self._done += 1
        return loss.detach()

    def _share_of_rate(self) -> float:
        if self._done < self._steps:
            return (self._done + 1) / self._steps
        decay = (self._done - self._steps) / ((self.epochs - 1) * self._steps)
        return (1 + math.cos(math.pi * decay)) / 2
