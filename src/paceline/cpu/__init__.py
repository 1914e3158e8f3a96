"""The CPUs that this process may use, how they are divided, and the threads that are bound to them."""
