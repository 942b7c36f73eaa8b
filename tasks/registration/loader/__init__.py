"""What travels inside a registered version: rewards from it, without this project."""
