"""Rewards over HTTP on the scale that a request, or who started the server, asked for."""

import pytest

from tasks.registration import load_reward_model
from tasks.registration.loader import champion_scale, reward_scale

TEXTS = ["blue", "The sky is green, or so they say."]


@pytest.mark.parametrize(("scale", "slope"), [("raw", 1), ("champion", 10)])
def test_a_request_gets_normalized_rewards_where_it_asks_for_them(
    client, copied, model, scale, slope
):
    raw = model.rewards(TEXTS)
    low, high, mean = float(raw.min()), float(raw.max()), float(raw.mean())
    held_out = reward_scale.RewardScale(mean, 2.0, minimum=low - 1, maximum=low, count=9)
    reward_scale.write(held_out, copied)
    to_champion = champion_scale.ScaleMap(1, 10.0, 0.0)
    (copied / "registration").mkdir()
    champion_scale.write(
        champion_scale.chained(2, to_champion, None, 9, 0.9), copied / "registration"
    )
    server = client(served=load_reward_model(copied, "cpu", scale=scale))

    def asked(**options):
        body = {"input": [{"text": text} for text in TEXTS], **options}
        return server.post("/v1/rewards", json=body).json()["data"]

    expected = {False: slope * raw, True: (raw - mean) / 2}
    beyond = [max(0.0, reward - low) / 2 for reward in raw.tolist()]
    assert max(beyond) == (high - low) / 2 > 0.1
    for normalize, rewards in expected.items():
        found = asked(normalize=normalize)
        assert [entry["reward"] for entry in found] == pytest.approx(rewards, abs=1e-4)
        told = [entry["outside_held_out_range"] for entry in found]
        assert told == pytest.approx(beyond, abs=1e-4)
