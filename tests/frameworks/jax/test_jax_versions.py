"""JAX that is missing, or of a version that nobody tried, is named in one sentence; nothing else is needed."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import jax
import pytest
from imported import other_packages

from paceline.jax.compat import NEWEST, OLDEST, require_jax


def test_the_installed_jax_is_supported() -> None:
    require_jax()
    assert OLDEST <= jax.__version_info__[:2] <= NEWEST


@pytest.mark.parametrize("version", ["0.5.3", "0.11.0", "1.0.0"])
def test_another_version_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    with pytest.raises(ImportError, match=rf"^paceline supports JAX 0\.6-0\.10, found {version[:-2]}$"):
        require_jax()


def test_no_jax_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"^paceline\.jax needs JAX, which is not installed: pip install jax$"):
        require_jax()


def test_the_face_loads_no_package_beside_jax() -> None:
    assert other_packages("import paceline.jax", first="import jax") <= {"jax", "numpy"}
