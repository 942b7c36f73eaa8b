"""What the next team receives: model directory, score contract, card, round trip."""
