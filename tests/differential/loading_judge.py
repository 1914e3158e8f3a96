"""Whether the ranks of a loading are given together what DataLoader gives."""

from __future__ import annotations

import loading_runner
import torch
from loading_programs import Loading
from torch_judge import DEADLINE
from torch_ranks import Ranks

OF_SAMPLES = ("is a list with a tensor for each sample", "the first dimension of all tensors is the samples")


def judge(loading: Loading, ranks: Ranks) -> str:
    """Load. Returns "equal", or "refused" for a batch that is of no kind which is shared, or is a list of samples.

    Raises AssertionError where ranks are given something else.
    """
    right, drawn = loading_runner.alone(loading)
    try:
        told = ranks(loading_runner.run, loading.size, loading=loading, deadline=DEADLINE)
    except AssertionError as error:
        if loading.structure == "named" and "a shared batch holds dense CPU tensors" in str(error):
            return "refused"
        if loading.structure == "images" and any(words in str(error) for words in OF_SAMPLES):
            return "refused"
        raise
    counts = [[len(epoch) for epoch in epochs] for epochs in (right, *(found for found, _ in told))]
    assert all(each == counts[0] for each in counts), f"batches of each epoch: {counts[1:]}, right: {counts[0]}"
    divided = loading.structure == "images" and any(len(leaves) > 1 for batches in right for _, leaves in batches)
    assert not divided, "a list with a tensor for each sample is divided along another dimension than the samples"
    for epoch, batches in enumerate(right):
        for number, (structure, leaves) in enumerate(batches):
            where = f"batch {number} of epoch {epoch}"
            each = [rank[0][epoch][number] for rank in told]
            assert all(own == structure for _, (own, _) in each), f"{where}: {[own for _, (own, _) in each]}"
            with_samples = [parts for weight, (_, parts) in each if weight > 0]
            for place, whole in enumerate(leaves):
                found = torch.cat([parts[place] for parts in with_samples])
                assert found.dtype == whole.dtype and torch.equal(found, whole), f"{where}: {found}\nright: {whole}"
            total = sum(weight for weight, _ in each)
            assert abs(total - loading.size) < 1e-9, f"{where}: the weights add up to {total}"
    assert told[0][1] == drawn, "rank 0 draws other random numbers afterwards"
    return "equal"
