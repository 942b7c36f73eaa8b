"""From bytes to rows: one reader for each format, and what a record of it has to be."""
