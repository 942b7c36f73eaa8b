"""From bytes to rows: one reader for each format, and the checks of each record."""
