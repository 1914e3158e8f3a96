from open_resources import nothing_left_open  # noqa: F401  (a fixture of every test here)
