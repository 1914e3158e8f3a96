"""A framework that is not installed is named in one sentence."""

from __future__ import annotations

import importlib
import importlib.util

import pytest


@pytest.mark.parametrize("face", ["tensorflow", "tensorflow.keras", "keras"])
def test_tensorflow_is_named_where_it_is_not_installed(face: str) -> None:
    with pytest.raises(ImportError) as caught:
        importlib.import_module(f"paceline.horovod.{face}")
    assert str(caught.value) == (
        "paceline.horovod.tensorflow needs TensorFlow, which is not installed: pip install tensorflow"
    )


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_ray_is_named_where_it_is_not_installed() -> None:
    with pytest.raises(ImportError) as caught:
        importlib.import_module("paceline.horovod.ray")
    assert str(caught.value) == (
        "paceline.horovod.ray needs Ray Train, which is not installed: pip install 'ray[train]'"
    )
