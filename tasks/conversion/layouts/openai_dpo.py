"""Layout `openai_dpo`: an input with messages, and the preferred and the other output.

    {"input": {"messages": [{"role": "user", "content": "Hi"}]},
     "preferred_output": [{"role": "assistant", "content": "Hello."}],
     "non_preferred_output": [{"role": "assistant", "content": "No."}]}

is one pair: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant "No."]. `tools`
may stand in `input`; its `parallel_tool_calls` is not read.
"""

from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.preference.fields import tools_of
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import not_as_expected

READ = ("input", "preferred_output", "non_preferred_output")


def fits(columns: set[str], row: Row) -> bool:
    """Its three columns are there, and the input is an object."""
    outputs = {"preferred_output", "non_preferred_output"}
    return outputs <= columns and isinstance(row.get("input"), dict)


def pairs(row: Row) -> list[Pair]:
    """The row's one pair, as messages.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_tools.
    """
    context = required(row, "input")
    if not is_object(context, "messages"):
        raise not_as_expected(context, "input", "an object with 'messages'")
    return [
        Pair(
            prompt=context["messages"],
            chosen=required(row, "preferred_output"),
            rejected=required(row, "non_preferred_output"),
            tools=tools_of(context.get("tools")),
        )
    ]
