"""Conversion: the rows of every source become canonical preference pairs.

    layouts/             row -> pairs or answers, one file per layout; recognised per source
    pair                 the canonical pair and the checks that every pair passes
    answers, pairing     answers judged one by one, and which of them make pairs
    sides                what both answers of a pair must be
    shapes               text or messages, implicit or explicit prompt: the field's own functions
    type_conversions     a row of one dataset type as a row of another
    dataset_conversions  the same for whole data sets
    preferences          the way back: labelled, scored or ranked completions -> preferences
    ties                 pairs neither side of which is better: left out, or kept
    overrides            what a person decided of single pairs, against their labels
    message_names        names of roles, here and elsewhere, and of keys
    tool_calls, tool_turns   calls of tools; a tool's turn and the call that it answers
    nulls                keys that are null only because another row has a value there
    signals              what a person should know of a pair's words: counted
    identity             pair_id, prompt group, split, and what makes a duplicate
    lanes                the two lanes that rows become pairs in: by columns, and one by one
    usual, characters    rows and texts that need no repair, told at a glance
    usual_pairs, row_batches   what is made of them, by columns; rows in pieces
    folding              prompts without regard to case and whitespace, many in one go
    stretches            hashes by which prompts that are nearly equal are told
    groups, joining      rows that make pairs with one another, side by side in bounded memory
    plan                 how the sources are read, and where their pairs go
    rows, shard_pairs    pass 1: one ingestion shard -> pairs and quarantine
    shard_records        what is noted of a shard's pairs, and held against all others
    duplicates           between the passes: duplicates and contradictions over all shards
    selection, kept      pass 2: pairs that are dropped are taken out; what is left, counted
    passes               both passes, side by side, and what an earlier artifact has of them
    cycles, leakage      preferences that run in a circle; held-out prompts nearly trained on
    tolerance            how many bad rows a source may have, here and in templating
    task                 the resumable stage

Reasons for which a row or pair cannot be used (quarantined, and counted against
`max_bad_fraction`): bad_json, not_object, missing_column, null, wrong_type, mixed_format,
empty_response, identical, identical_normalised, empty_messages, bad_message, unknown_role,
null_content, image_part, bad_tool_call, no_final_assistant, no_prompt, prompt_not_prefix,
prompt_duplicated, prompts_differ, bad_transcript, bad_margin, bad_weight, bad_score,
score_contradicts_label, bad_label, bad_steps, step_out_of_range, bad_tools, bad_images,
bad_chat_template_kwargs, unmatched_tool_turn (where a source's options ask for it).
Reasons that are no fault of a row: tie (quarantined too), unrated (an answer without a score),
unpaired_alone (no other row or answer to compare it with), contradiction (both sides quarantined),
duplicate (the kept pair says the same: not quarantined), capped (a pair over `max_pairs`),
joined (a row whose answer went into another row's pair), overridden_drop and overridden_tie
(`overrides` says so).
"""

from tasks.conversion.dataset_conversions import (
    CONVERSIONS,
    convert_type,
    maybe_unpair_preference_dataset,
    unpair_preference_dataset,
)
from tasks.conversion.pair import Pair, checked
from tasks.conversion.params import ConversionParams
from tasks.conversion.preferences import (
    Preferences,
    best_of_n_to_preference,
    preferences_of,
    ranked_to_preference,
    scored_to_preference,
    unpaired_to_preference,
)
from tasks.conversion.shapes import extract_prompt, is_conversational, maybe_extract_prompt
from tasks.conversion.shards import pair_shards
from tasks.conversion.task import VERSION, step
from tasks.conversion.type_conversions import (
    implicit_preference_to_language_modeling,
    implicit_preference_to_preference,
    implicit_preference_to_prompt_completion,
    implicit_preference_to_prompt_only,
    implicit_preference_to_unpaired_preference,
    preference_to_implicit_preference,
    preference_to_language_modeling,
    preference_to_prompt_completion,
    preference_to_prompt_only,
    preference_to_unpaired_preference,
    prompt_completion_to_language_modeling,
    prompt_completion_to_prompt_only,
    stepwise_supervision_to_language_modeling,
    stepwise_supervision_to_prompt_completion,
    stepwise_supervision_to_prompt_only,
    stepwise_supervision_to_unpaired_preference,
    unpaired_preference_to_language_modeling,
    unpaired_preference_to_prompt_completion,
    unpaired_preference_to_prompt_only,
)
from tasks.conversion.unusable import Unusable

__all__ = [
    "CONVERSIONS",
    "VERSION",
    "ConversionParams",
    "Pair",
    "Preferences",
    "Unusable",
    "best_of_n_to_preference",
    "checked",
    "convert_type",
    "extract_prompt",
    "implicit_preference_to_language_modeling",
    "implicit_preference_to_preference",
    "implicit_preference_to_prompt_completion",
    "implicit_preference_to_prompt_only",
    "implicit_preference_to_unpaired_preference",
    "is_conversational",
    "maybe_extract_prompt",
    "maybe_unpair_preference_dataset",
    "pair_shards",
    "preference_to_implicit_preference",
    "preference_to_language_modeling",
    "preference_to_prompt_completion",
    "preference_to_prompt_only",
    "preference_to_unpaired_preference",
    "preferences_of",
    "prompt_completion_to_language_modeling",
    "prompt_completion_to_prompt_only",
    "ranked_to_preference",
    "scored_to_preference",
    "step",
    "stepwise_supervision_to_language_modeling",
    "stepwise_supervision_to_prompt_completion",
    "stepwise_supervision_to_prompt_only",
    "stepwise_supervision_to_unpaired_preference",
    "unpair_preference_dataset",
    "unpaired_preference_to_language_modeling",
    "unpaired_preference_to_prompt_completion",
    "unpaired_preference_to_prompt_only",
    "unpaired_to_preference",
]
