"""Benchmark prompts among the training pairs, in the artifact of a real conversion."""

import json

from tasks.artifact import Store
from tasks.conversion import ConversionParams
from tasks.conversion import step as conversion_step
from tasks.evaluation.benchmarks.contamination import contamination, training_groups
from tasks.evaluation.benchmarks.items import Item, Place
from tasks.ingestion import IngestionParams, Source
from tasks.ingestion import step as ingestion_step

ASKED = {"role": "user", "content": "Who wrote Faust?"}
BEGUN = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
SYSTEM = {"role": "system", "content": "You know all books."}
DEVELOPER = {"role": "developer", "content": "Answer in verse."}


def converted(directory, prompts):
    """The conversion of these prompts, all of them for training."""
    rows = [
        {
            "prompt": prompt,
            "chosen": [{"role": "assistant", "content": f"Goethe {i}."}],
            "rejected": [{"role": "assistant", "content": f"Schiller {i}."}],
        }
        for i, prompt in enumerate(prompts)
    ]
    path = directory / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    source = Source(name="books", path=str(path))
    store = Store(directory / "data")
    ingestion = store.obtain(ingestion_step(IngestionParams(sources=[source])))
    params = ConversionParams(eval_fraction=0)
    return store.obtain(conversion_step(params, (source,), ingestion)).path


def shared(conversion, *prompts):
    items = [
        Item(Place("rewardbench", "bench.jsonl", i), str(i), "books", prompt, ("a", "b"), 1)
        for i, prompt in enumerate(prompts)
    ]
    return contamination(items, training_groups(conversion))["ids"]


def test_a_prompt_is_found_under_whatever_system_text(tmp_path):
    trained_on = [[SYSTEM, DEVELOPER, ASKED], [*BEGUN, {"role": "user", "content": "And Nathan?"}]]
    conversion = converted(tmp_path, trained_on)
    asked, nathan = ASKED["content"], [*BEGUN, {"role": "user", "content": "and  nathan?"}]
    other = {"role": "system", "content": "Be brief."}
    found = shared(
        conversion, asked, [other, ASKED], [other, *nathan], "Who wrote Nathan?", [other]
    )
    assert found == ["0", "1", "2"]


def test_a_system_text_alone_is_a_prompt_of_its_own(tmp_path):
    conversion = converted(tmp_path, [[SYSTEM], [ASKED]])
    assert shared(conversion, [SYSTEM], [DEVELOPER], [ASKED]) == ["0", "2"]
