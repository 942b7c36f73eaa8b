"""One preference pair: what it is made of, what it has to be, what it is known by."""
