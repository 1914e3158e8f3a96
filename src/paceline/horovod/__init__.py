"""Horovod's Python API over Paceline: `import paceline.horovod.torch as hvd` in place of `import horovod.torch as hvd`.

Names, arguments, defaults and errors are those of Horovod 0.28.1; docs/horovod.md says what differs and why.
"""
