"""Files that grow: what an earlier artifact holds of one is not read again."""
