"""Columns that a source has and its layout does not read, and what is lost with them.

The log names all of them once. A system, an instruction's input, and prompts of answers that are
read without a prompt are warnings: pairs are made all the same, and mean something else.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.conversion.layouts import columns, trl
from tasks.conversion.layouts.alternatives import passed_over
from tasks.conversion.layouts.columns import Row
from tasks.conversion.layouts.hints import INPUT
from tasks.conversion.layouts.known import LAYOUTS, columns_of
from tasks.conversion.options import Options
from tasks.errors import shown

logger = logging.getLogger(__name__)


def unread_columns(
    layout: str, options: Options, mapping: Mapping[str, str], seen: Sequence[str]
) -> list[str]:
    """The columns of the source that the layout does not read."""
    ours = {*columns_of(layout, options)} - {*mapping} - passed_over(layout, mapping)
    ours -= {*LAYOUTS[layout].only_if_mapped}
    read = ours | {*mapping.values()} | {*map(columns.head_of, mapping.values())}
    return [name for name in seen if name not in read]


def tell_unread(source: str, layout: str, unread: Sequence[str], rows: Sequence[Row]) -> None:
    """Names the columns that are not read, and warns of a system among them: answers given under
    different ones would be compared."""
    if unread:
        listed = ", ".join(shown(name, 40) for name in unread)
        logger.info("source %r: columns that layout %r does not read: %s", source, layout, listed)
    for name in (name for name in unread if name in trl.SYSTEMS):
        if systems := _filled(rows, name):
            logger.warning(
                "source %r: its column %r holds %s, which layout %r does not read: if it is not in "
                "the prompts already, it is lost, and answers given under different ones are "
                "compared; write it into the prompts, as a first message with the role system",
                *(source, name, shown(systems[0], 60), layout),
            )


def tell_inputs(source: str, rows: Sequence[Row]) -> None:
    """Warns where instructions are read without the inputs that they work on."""
    if inputs := _filled(rows, "input"):
        logger.warning("source %r: %s (found %s)", source, INPUT, shown(inputs[0], 60))


def _filled(rows: Sequence[Row], name: str) -> list[Any]:
    """The values of the column that are not blank."""
    return [row[name] for row in rows if str(row.get(name) or "").strip()]


def tell_asked(
    source: str, layout: str, unread: Sequence[str], rows: Sequence[Row], named: Sequence[Row]
) -> None:
    """Warns where answers are read without a prompt, and a column that is not read holds it.

    `named`: the same rows under the names of the layout.
    """
    for name in unread:
        for row, ours in zip(rows, named, strict=True):
            asked = trl.is_asked(name, row.get(name))
            if asked and "chosen" in ours and not _is_read(row[name], ours):
                logger.warning(
                    "source %r: its column %r holds %s, which layout %r does not read, and the "
                    "answers have no prompt: it is lost; write columns: {..., prompt: %s}",
                    *(source, name, shown(row[name], 60), layout, name),
                )
                break


def _is_read(prompt: object, ours: Row) -> bool:
    """Whether the prompt is read from elsewhere, too: from `prompt`, or from the answer's start."""
    answer = ours["chosen"]
    within = isinstance(prompt, str) and isinstance(answer, str) and prompt.strip() in answer
    return "prompt" in ours or within or trl.is_whole(answer)
