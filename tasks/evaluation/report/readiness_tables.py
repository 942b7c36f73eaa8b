"""The tables of the page on what RL will find: spread, ties, best of n, extreme answers."""

from tasks.evaluation.report.layout import Figures, Table
from tasks.evaluation.report.wording import count, number, share, worded


def readiness(metrics: Figures) -> list[Table]:
    """Spread and ties, best of n, extreme answers; each of the last two where there are any."""
    found = metrics["readiness"]
    tables = [Table("Spread and ties", ("", "figure"), _spread_rows(found))]
    if found["best_of_n"]:
        rows = [
            [
                str(b["n"]),
                count(b["groups"]),
                *(number(b[k]) for k in ("model", "oracle", "random")),
            ]
            for b in found["best_of_n"]
        ]
        heads = ("n", "prompts", "model", "best possible", "random")
        tables.append(Table("Best of n", heads, rows, folded=True))
    if found.get("probes"):
        rows = [
            [
                worded(case),
                number(p["mean_reward"]),
                number(p["z"]),
                share(p["above_median"]),
                share(p["beats_chosen"]),
            ]
            for case, p in found["probes"].items()
        ]
        heads = ("answer", "mean reward", "z", "above the median", "beats the chosen")
        note = "Made-up answers to held-out prompts; z: deviations from the mean of all answers."
        tables.append(Table("Extreme answers", heads, rows, note))
    return tables


def _spread_rows(found: Figures) -> list[list[str]]:
    serving, groups = found["bfloat16"], found["groups"]
    rows = [
        ["tie rate in float32", share(serving["tie_rate_float32"])],
        ["tie rate once rounded to bfloat16", share(serving["tie_rate"])],
    ]
    if groups:
        rows += [
            ["prompts with several answers", count(groups["groups"])],
            ["mean deviation within a prompt", number(groups["within_std_mean"])],
            ["prompts whose answers all earn the same", share(groups["zero_advantage"])],
            ["the same in bfloat16", share(groups["zero_advantage_bfloat16"])],
        ]
    return rows
