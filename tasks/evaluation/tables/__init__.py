"""The tables that every figure comes from: scores of pairs, and what their texts look like."""
