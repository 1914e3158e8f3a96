"""The errors about a model, a shape of the job or a batch, as one sentence, and those between ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paceline.errors import CommunicationError


class HybridError(ValueError):
    """`hybrid` or `step` was asked for something that it can't do. All ranks raise it where all could know."""


@contextmanager
def communication_errors() -> Iterator[None]:
    """Raise a CommunicationError itself where torch's pipelines wrap it in an error of their own."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, CommunicationError):
            cause = cause.__cause__
        if cause is None or cause is error:
            raise
        raise cause from None
