"""The code that runs inside every measured rank.

This package stands alone: it imports NumPy and the system under test, and nothing else of Paceline. A peer that is
installed in an environment of its own can therefore run it as the top-level package `ranks`.
"""
