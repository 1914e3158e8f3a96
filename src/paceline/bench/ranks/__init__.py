"""What runs inside every measured rank.

This package stands alone: it imports NumPy and the system under test, nothing else of Paceline. A peer that lives in
an environment of its own can therefore run it as the top-level package ``ranks``.
"""
