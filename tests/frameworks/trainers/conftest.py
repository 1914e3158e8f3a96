"""Tests of trainers. Without them, as in the environment of `make test`, there are none here."""

from __future__ import annotations

import importlib.util

if any(importlib.util.find_spec(name) is None for name in ("accelerate", "lightning", "ray", "transformers")):
    collect_ignore_glob = ["test_*.py"]
