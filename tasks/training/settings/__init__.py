"""What whoever trains decides: RewardConfig, and what of it is refused, with what to write."""
