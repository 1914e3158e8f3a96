"""The subjects of `decision_sensitivity.py`."""
