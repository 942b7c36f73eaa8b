"""The training child from outside: its job, its start, its warden, what it shows."""
