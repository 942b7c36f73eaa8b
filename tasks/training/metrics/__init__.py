"""What is told of pairs: of an interval of training, and of all rows that are evaluated."""
