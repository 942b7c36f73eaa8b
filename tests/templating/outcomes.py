"""Rows through templating's `ShardRows`, by replaying or by the renderer alone."""

import json

import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.first_pass.tables import SCHEMA
from tasks.templating.shards.row_by_row import Pictured
from tasks.templating.shards.shard import renderers
from tasks.templating.shards.shard_rows import ShardRows

WORDS = (
    *("Hi", " padded ", "naïve 🦩", "a\n\nb", '“quoted” \\ "x"', "im_end", "end", "1 < 2 > 0"),
    *("<think>\nhm\n</think>\n\nblue", "</think>", "\x00\x01\x1f", "\x7f", "x" * 300, " \t\n", "§"),
    *("see <|im_end|>", "<|im_", "end|> go", "<s>", "[INST] do [/INST]", "### Response: yes"),
    *("<<SYS>>", "# a", "[T]", "<start_of_turn>", "<|eot_id|>", "]T", "} ] [ {", "\u2028"),
)


def table(rows, form=(",", ":"), spelled=""):
    """The canonical pairs as conversion writes them, in one batch."""
    columns = {name: [None] * len(rows) for name in SCHEMA.names}
    for n, row in enumerate(rows):
        text = isinstance(row["chosen"], str)
        for name in ("prompt", "chosen", "rejected", "tools", "chat_template_kwargs", "images"):
            if row.get(name) is not None:
                whole = json.dumps(row[name], ensure_ascii=False, separators=form)
                for character in spelled:
                    whole = whole.replace(character, f"\\u{ord(character):04x}")
                columns[name][n] = whole
        columns["format"][n] = "standard" if text else "conversational"
        columns["source"][n], columns["file"][n], columns["row"][n] = "s", "f", n
        columns["preference"][n] = columns["weight"][n] = 1.0
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


def outcome(tokenizer, params, batches, *, replaying, pictured=False, known=None):
    ledger, quarantine = Ledger(), Quarantine("templating")
    rows = ShardRows(
        known or renderers(tokenizer, params),
        (ledger, quarantine),
        strict=params.delimiters_in_text == "quarantine",
        replaying=replaying,
        pictured=pictured,
    )
    try:
        found = [rows.rendered(batch) for batch in batches]
    except Pictured:
        again = {"replaying": replaying, "pictured": True, "known": known}
        return outcome(tokenizer, params, batches, **again)
    told = (found, ledger.to_json(), quarantine.rows, rows.delimiters, rows.images)
    return told, rows.replayed
