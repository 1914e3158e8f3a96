"""What the options of commands have in common: checks of their values, and files that commands write."""
