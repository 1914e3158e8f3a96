"""Tests of JAX's face. Without JAX, as in the environment of `make test`, there are none here."""

from __future__ import annotations

import importlib.util

_spec = importlib.util.find_spec("jax")
if _spec is None or _spec.origin is None:  # this folder itself counts as a package without an origin
    collect_ignore_glob = ["test_*.py"]
