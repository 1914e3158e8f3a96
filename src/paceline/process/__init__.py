"""The parts of Paceline in this process, put together: its runtime, how networks are followed, what people see."""
