"""The name by which torch knows the backend."""

NAME = "paceline"
