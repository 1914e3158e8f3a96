"""The kinds of programs that the machine draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import horovod_ranks
import hvd_judge
import hvd_programs
import hybrid_judge
import hybrid_programs
import loading_judge
import loading_programs
import torch_judge
import torch_programs
import torch_ranks
import training_judge
import training_programs
from machine import Kind


@contextmanager
def kinds() -> Iterator[list[Kind]]:
    """All of them, with the processes that run them."""
    groups, jobs = torch_ranks.Ranks(), horovod_ranks.Ranks()
    try:
        yield [
            Kind("torch", torch_programs.programs(), partial(torch_judge.judge, ranks=groups)),
            Kind("horovod", hvd_programs.programs(), partial(hvd_judge.judge, ranks=jobs)),
            Kind("hybrid", hybrid_programs.trainings(), partial(hybrid_judge.judge, ranks=groups)),
            Kind("loader", loading_programs.loadings(), partial(loading_judge.judge, ranks=groups)),
            Kind("optimizer", training_programs.trainings(), partial(training_judge.judge, ranks=groups, jobs=jobs)),
        ]
    finally:
        groups.close()
        jobs.close()
