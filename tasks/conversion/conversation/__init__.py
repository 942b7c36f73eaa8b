"""Messages of a conversation: their names, their order, the tools that they call."""
