"""Conversion: the rows of every source become canonical preference pairs.

    layouts/     row -> pairs, one file per layout; recognised per source, checked on every row
    pair         the canonical pair and the checks that every pair passes
    shapes       text or messages, implicit or explicit prompt: the field's own functions
    identity     pair_id, prompt group, split, and what makes a duplicate
    rows         pass 1: one ingestion shard -> pairs and quarantine
    duplicates   pass 2: duplicates and contradictions over all shards
    task         the resumable stage

Reasons for which a row or pair cannot be used (quarantined, and counted against
`max_bad_fraction`): bad_json, not_object, missing_column, null, wrong_type, mixed_format,
empty_response, identical, identical_normalised, empty_messages, bad_message, unknown_role,
null_content, image_part, bad_tool_call, no_final_assistant, no_prompt, prompt_not_prefix,
prompt_duplicated, prompts_differ, bad_transcript, bad_margin, bad_weight, bad_score,
score_contradicts_label, bad_tools, bad_chat_template_kwargs.
Reasons that are no fault of a row: tie (quarantined too), contradiction (both sides quarantined),
duplicate (the kept pair says the same: not quarantined).
"""

from tasks.conversion.pair import Pair, checked
from tasks.conversion.params import ConversionParams
from tasks.conversion.shapes import extract_prompt, is_conversational, maybe_extract_prompt
from tasks.conversion.shards import pair_shards
from tasks.conversion.task import VERSION, step
from tasks.conversion.unusable import Unusable

__all__ = [
    "VERSION",
    "ConversionParams",
    "Pair",
    "Unusable",
    "checked",
    "extract_prompt",
    "is_conversational",
    "maybe_extract_prompt",
    "pair_shards",
    "step",
]
