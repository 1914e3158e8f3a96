from open_resources import little_to_collect, nothing_left_open  # noqa: F401  (fixtures of every test here)
