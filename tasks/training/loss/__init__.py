"""What a run minimises: losses of pairs and of ranked answers, their params, the rows they need."""
