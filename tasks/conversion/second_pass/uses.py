"""Sources with a `use` of their own, and what that means for pairs of the same prompts elsewhere.

    gold    use: eval      other sources' pairs of its prompts are left out
    more    use: train     its pairs of a prompt that another source holds out are left out
    bench   use: exclude   no pair of its prompts is used, from whatever source

In:  the `KEYS` arrays of all shards, in row order.
Out: `ELSEWHERE` or `EXCLUDED` for such pairs. This comes before duplicates are looked for, or the
     pair of the gold set might be dropped as a duplicate of another source's.

Without such sources, no prompt can be in both splits, by construction.
"""

from collections.abc import Sequence

import numpy as np

from tasks.conversion.first_pass.shard_records import field_of
from tasks.conversion.second_pass.duplicates import ELSEWHERE, EXCLUDED, KEEP, Array
from tasks.ingestion.params import Use


def set_apart(shards: Sequence[Array], uses: Sequence[Use]) -> Array | None:
    """The verdicts on all pairs; None where no source has a `use` of its own. `uses` has that of
    every source, by its number."""
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
