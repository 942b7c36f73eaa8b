"""Growing files: the part of which an earlier artifact has the rows is not read again."""
