"""Checkpoints that count only when whole, and the run that goes on from one."""
