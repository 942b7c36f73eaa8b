"""Which version serves: what it is judged by, and who moved which alias when."""
