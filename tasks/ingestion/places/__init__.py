"""Where a source's files are, how they are fetched, and what identifies their content."""
