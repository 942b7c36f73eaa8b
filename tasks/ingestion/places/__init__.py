"""Where a source's files are, how they come here, and what they are known by."""
