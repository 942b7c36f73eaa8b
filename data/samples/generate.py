"""The sample data: about 2,000 preference pairs in three raw layouts, from one seed.

    python data/samples/generate.py [FOLDER]

Writes `conversations.jsonl`, `votes.csv` and `transcripts.jsonl` beside this file (or into FOLDER),
the same bytes every time. README.md describes the tasks and the bad rows.
"""

import sys
from pathlib import Path
from random import Random

import answer_tasks
import instruction_tasks
from layouts import conversation_lines, transcript_lines, vote_lines
from sample_pair import Family, Pair

SEED = 20240229
FAMILIES: dict[str, Family] = {**instruction_tasks.FAMILIES, **answer_tasks.FAMILIES}
# layout -> family -> pairs
CONVERSATIONS = {
    "language": 150, "format": 70, "voice": 150, "length": 40, "wanted word": 120,
    "forbidden word": 120, "recall": 140,
}  # fmt: skip
VOTES = {
    "format": 60, "length": 40, "unit": 200, "order": 110, "sum": 180, "wanted word": 40,
    "forbidden word": 40,
}  # fmt: skip
TRANSCRIPTS = {
    "language": 80, "topic": 240, "sign": 110, "recall": 120, "wanted word": 40,
    "forbidden word": 30,
}  # fmt: skip


def draw_pairs(rng: Random, counts: dict[str, int]) -> list[Pair]:
    """Shuffled verified pairs; in each family the longer answer wins every second time."""
    seen: set[tuple[object, ...]] = set()
    pairs: list[Pair] = []
    for name, count in counts.items():
        family = FAMILIES[name]
        for number in range(count):
            pair = draw_balanced(rng, family, chosen_is_longer=number % 2 == 0, seen=seen)
            pairs.append(pair)
    rng.shuffle(pairs)
    return pairs


def draw_balanced(
    rng: Random, family: Family, *, chosen_is_longer: bool, seen: set[tuple[object, ...]]
) -> Pair:
    """A pair not drawn before whose longer answer is on the wanted side, checked by the rule."""
    while True:
        pair = family.draw(rng)
        assert family.follows(pair.request, pair.chosen), pair
        assert not family.follows(pair.request, pair.rejected), pair
        prompt = (pair.system, *pair.turns)
        lengths_fit = len(pair.chosen) > len(pair.rejected)
        if len(pair.chosen) == len(pair.rejected) or lengths_fit != chosen_is_longer:
            continue
        if prompt in seen:
            continue
        seen.add(prompt)
        return pair


def write_samples(folder: Path) -> None:
    """The three files in `folder`, from one random stream."""
    rng = Random(SEED)
    conversations, votes, transcripts = (
        draw_pairs(rng, counts) for counts in (CONVERSATIONS, VOTES, TRANSCRIPTS)
    )
    files = {
        "conversations.jsonl": conversation_lines(rng, conversations),
        "votes.csv": vote_lines(rng, votes),
        "transcripts.jsonl": transcript_lines(rng, transcripts),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        (folder / name).write_bytes("".join(f"{row}\n" for row in rows).encode())


if __name__ == "__main__":
    write_samples(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
