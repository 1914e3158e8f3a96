"""The error about a model, a shape of the job or a batch, as one sentence."""

from __future__ import annotations


class HybridError(ValueError):
    """`hybrid` or `step` was asked for something that it can't do. All ranks raise it where all could know."""
