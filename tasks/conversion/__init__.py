"""Conversion: the rows of every source become canonical preference pairs.

    layouts/        row -> pairs or answers, one file per layout; recognised per source
    conversation/   messages: their names and their order, calls of tools, keys that are null
    preference/     one pair, or answers judged one by one: what they have to be, what they are
                    known by, ties, and what a person should know of their words
    first_pass/     one ingestion shard -> pairs, quarantine, and records of the pairs: by columns
                    where rows are usual, else one by one; rows of one group side by side
    second_pass/    what the pairs of all shards say of each other: duplicates, contradictions,
                    circles, prompts nearly trained on; and which of them are left
    dataset_types/  rows and whole data sets of one type as those of another
    plan, samples   how the sources are read; the rows by which a layout is recognised
    passes          both passes, side by side, and what an earlier artifact has of them
    overrides       what a person decided of single pairs, against their labels
    unusable        why a row or a pair cannot be used
    tolerance       how many bad rows a source may have, here and in templating
    report          what the record says
    task            the resumable stage

Reasons for which a row or pair cannot be used (quarantined, and counted against
`max_bad_fraction`): bad_json, not_object, missing_column, null, wrong_type, mixed_format,
empty_response, identical, identical_normalised, empty_messages, bad_message, unknown_role,
null_content, image_part, unknown_part, bad_tool_call, no_final_assistant, no_prompt,
prompt_not_prefix, prompt_duplicated, prompts_differ, bad_transcript, bad_margin, bad_weight,
bad_score, score_contradicts_label, bad_label, bad_steps, step_out_of_range, bad_tools, bad_images,
bad_chat_template_kwargs, number_too_large, unmatched_tool_turn (where a source's options ask for
it).
Reasons that are no fault of a row: tie (quarantined too), unrated (an answer without a score),
unpaired_alone (no other row or answer to compare it with), contradiction (both sides quarantined),
duplicate (the kept pair says the same: not quarantined), capped (a pair over `max_pairs`),
joined (a row whose answer went into another row's pair), overridden_drop and overridden_tie
(`overrides` says so).
"""

from tasks.conversion.dataset_types.dataset_conversions import (
    CONVERSIONS,
    convert_type,
    maybe_unpair_preference_dataset,
    unpair_preference_dataset,
)
from tasks.conversion.dataset_types.preferences import (
    Preferences,
    best_of_n_to_preference,
    preferences_of,
    ranked_to_preference,
    scored_to_preference,
    unpaired_to_preference,
)
from tasks.conversion.dataset_types.type_conversions import (
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
from tasks.conversion.params import ConversionParams
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.shapes import (
    extract_prompt,
    is_conversational,
    maybe_extract_prompt,
)
from tasks.conversion.shards import pair_shards
from tasks.conversion.task import VERSION, step
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
