"""Sources that are for one thing alone, and what that means for the pairs of others.

    gold    use: eval      alone has pairs of its prompts: those of other sources are left out
    more    use: train     has none of a prompt that another source holds out
    bench   use: exclude   its prompts' pairs are not used at all, wherever they stand

In:  the `KEYS` arrays of all shards, in row order.
Out: `ELSEWHERE` or `EXCLUDED` for such pairs, before anything is held to be a duplicate: else the
     pair of the gold set would be the one to go.

Where no source is for one thing alone, no prompt is on both sides by construction.
"""

from collections.abc import Sequence

import numpy as np

from tasks.conversion.first_pass.shard_records import field_of
from tasks.conversion.second_pass.duplicates import ELSEWHERE, EXCLUDED, KEEP, Array
from tasks.ingestion.params import Use


def set_apart(shards: Sequence[Array], uses: Sequence[Use]) -> Array | None:
    """The verdicts on all pairs; None where no source is for one thing alone. `uses`: by number."""
    if all(use == "both" for use in uses):
        return None
    source, group = field_of(shards, "source"), field_of(shards, "together")
    held_out = field_of(shards, "eval")
    gold, bench = (np.array([use == it for use in uses])[source] for it in ("eval", "exclude"))
    codes = np.full(len(source), KEEP, np.uint8)
    codes[~held_out & np.isin(group, group[held_out & ~bench])] = ELSEWHERE
    codes[~gold & np.isin(group, group[gold])] = ELSEWHERE
    codes[np.isin(group, group[bench])] = EXCLUDED
    return codes
