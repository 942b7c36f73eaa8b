"""RewardConfig, and the checks of its values."""
