"""The `paceline` command, also as `python -m paceline`."""

from paceline.launch import interrupts


def main() -> None:
    """Entry point: until the command is imported, Ctrl-C ends it without a word."""
    interrupts.silent()
    from paceline.cli import main

    main.main()


if __name__ == "__main__":
    main()
