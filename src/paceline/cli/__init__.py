"""The `paceline` command: one module a subcommand, which reads its arguments and calls the room that does the work."""
