"""All that the model itself is run for."""
