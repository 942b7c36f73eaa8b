"""The child process that trains: its job file, launch command, supervisor and progress records."""
