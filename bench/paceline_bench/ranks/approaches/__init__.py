"""Ways to train on several ranks, each carried out by the same orders: see `steps.Steps`.

They run in the environments of the frameworks that they need, where Paceline need not be installed.
"""
