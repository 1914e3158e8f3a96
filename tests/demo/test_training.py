"""What makes the demo's comparison with one process fair: shards and combined batch give the same gradients."""

import torch
from torch.nn.functional import cross_entropy

from paceline.cli.demo.digits import TEST, TRAINING, Digits, steps_per_epoch
from paceline.cli.demo.model import residual_network

BATCH = 64


def some_digits() -> Digits:
    count = TRAINING + TEST
    return Digits(torch.arange(count).double().reshape(-1, 1, 1, 1).expand(-1, 1, 8, 8), torch.arange(count))


def test_shards_are_the_parts_of_the_combined_batch() -> None:
    digits = some_digits()
    whole = list(digits.batches(3, BATCH))
    shards = [list(digits.batches(3, BATCH, shard, 4)) for shard in range(4)]
    assert len(whole) == steps_per_epoch(BATCH) == 22
    for step, (images, labels) in enumerate(whole):
        assert torch.equal(torch.cat([shard[step][0] for shard in shards]), images)
        assert torch.equal(torch.cat([shard[step][1] for shard in shards]), labels)


def test_an_epoch_takes_each_training_image_at_most_once_and_no_test_image() -> None:
    labels = torch.cat([labels for _, labels in some_digits().batches(0, BATCH)])
    assert len(labels.unique()) == len(labels) == 22 * BATCH
    assert labels.max() < TRAINING


def test_shards_average_to_the_gradient_of_the_combined_batch() -> None:
    network = residual_network().double()
    images = torch.randn(8, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(8)
    weights = list(network.parameters())
    combined = torch.autograd.grad(cross_entropy(network(images), labels), weights)
    shards = [
        torch.autograd.grad(cross_entropy(network(images[part]), labels[part]), weights)
        for part in (slice(0, 4), slice(4, 8))
    ]
    for expected, first, second in zip(combined, *shards, strict=True):
        torch.testing.assert_close((first + second) / 2, expected)


def test_networks_start_equal() -> None:
    for one, other in zip(residual_network().parameters(), residual_network().parameters(), strict=True):
        assert torch.equal(one, other)
