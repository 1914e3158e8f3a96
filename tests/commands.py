"""Commands of Paceline in this process, where a process of their own would show nothing more."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from paceline.cli import main


def paceline(*words: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a `paceline` command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main.main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue(), err.getvalue()
