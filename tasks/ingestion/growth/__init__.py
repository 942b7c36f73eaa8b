"""Growing files: the part of a file that an earlier artifact holds is not read again."""
