"""The `paceline` command: each module is a subcommand, which reads its arguments and calls the room that does the
work.
"""
