"""Jobs in virtual time: the engine's own policies on as many ranks as one likes, and the planner's cost model."""

from paceline.simulate.answer import Answer, answer
from paceline.simulate.compute import Compute
from paceline.simulate.job import Cores, Job, Step, Thread, Transfer, mean, steps
from paceline.simulate.models import Gradient, Model, model

__all__ = [
    "Answer",
    "Compute",
    "Cores",
    "Gradient",
    "Job",
    "Model",
    "Step",
    "Thread",
    "Transfer",
    "answer",
    "mean",
    "model",
    "steps",
]
