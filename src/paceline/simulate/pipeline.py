"""Replicas of a model in partitions, as a job in which each replica is a rank.

The partitions of a replica, which have equal work, do the forwards and backwards of M microbatches by 1F1B or GPipe. A
step then takes (M + P - 1) / (M P) of what it takes one rank (Huang et al., "GPipe", NeurIPS 2019, section 2.3). The
last microbatch's backward goes through the partitions one after the other, at the end of the step, and makes gradients
whole. Each partition exchanges its own among the replicas; those of one machine share its link, which carries as many
bytes as if one rank had the whole model. What goes from partition to partition stays inside a machine, and is taken to
cost nothing. A pipeline of one partition is a rank that adds up the gradients of microbatches.
"""

from __future__ import annotations

from dataclasses import replace

from paceline.simulate.workload import Workload
from paceline.topology import Topology
from paceline.topology.prune import prune


def pipelined(workload: Workload, partitions: int, microbatches: int) -> Workload:
    """Return what a replica does whose partitions share the computation of one rank. Raises ValueError below 1."""
    if partitions < 1 or microbatches < 1:
        raise ValueError(f"there must be at least 1 partition and microbatch, not {partitions} and {microbatches}")
    if partitions == microbatches == 1:
        return workload
    rounds = microbatches + partitions - 1
    gradients = tuple(
        replace(gradient, ready=1 - (1 - gradient.ready) * partitions / rounds) for gradient in workload.gradients
    )
    return replace(workload.scaled(rounds / (microbatches * partitions)), gradients=gradients)


def replicas(topology: Topology, partitions: int) -> Topology:
    """Return the topology with a rank for each replica. Raises ValueError if one would be on several machines."""
    kept: list[int] = []
    first = 0
    for machine, ranks in topology.machines():
        if len(ranks) % partitions:
            raise ValueError(
                f"a replica must be on one machine, but {machine.name} has {len(ranks)} ranks, which {partitions} "
                "partitions do not divide"
            )
        kept += range(first, first + len(ranks), partitions)
        first += len(ranks)
    return prune(topology, kept)
