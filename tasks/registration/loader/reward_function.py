"""A reward model as the plain function that RL trainers call.

    GRPOTrainer(reward_funcs=as_reward_func(load_reward_model(path)), ...)

    prompts       ["The sky is", ...]   or   [[{"role": "user", ...}], ...]
    completions   [" blue.", ...]       or   [[{"role": "assistant", ...}], ...]

Text needs this function: of a bare path (`reward_funcs=path`) TRL encodes prompt and completion
with `add_special_tokens=False` and without the end token that training put behind every text, so it
gets other rewards. Conversations go through the chat template in both ways, and get the same where
TRL computes in float32 (`bf16=False`; by default it scores a path's model under autocast) and no
column `tools` or `chat_template_kwargs` is given, which TRL does not hand to a path's template.

Trainers hold their rows in a table, which gives every row the keys of all others, null in them: in
calls' arguments and in template settings such keys are left out, as conversion leaves them out of
tables. A special token that a policy spells is read as text, though training had no
such rows, unless the model was loaded with `special_tokens_in_text="quarantine"`: no answer may
end a run of RL.

Travels inside the registered model: it may import only modules that travel with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.conversion.conversation.printed_nulls import without_printed_nulls
from tasks.registration.loader.given_rows import (
    FILLED,
    OPTIONS,
    check_options,
    conversations,
    options_of,
)
from tasks.registration.loader.inference import ServedModel


class RewardFunction:
    """`(prompts, completions, **columns) -> one float per completion`, under a name.

    A pickled one, as Ray sends it to its workers, is the model's directory and how it was loaded:
    it is loaded again there.
    """

    def __init__(self, model: ServedModel, name: str, options: Mapping[str, Any]) -> None:
        self.model = model
        self.__name__ = name
        self.options = options
        self.texts = replace(model.texts_of_policies, options=options_of(options))

    def __reduce__(self) -> tuple[Any, ...]:
        return RewardFunction, (self.model, self.__name__, self.options)

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float]:
        if len(prompts) != len(completions):
            raise ValueError(f"{len(prompts)} prompts, but {len(completions)} completions")
        used = {name: columns[name] for name in OPTIONS if columns.get(name)}
        for name, values in used.items():
            if isinstance(values, str | Mapping):
                raise ValueError(f"{name!r} is {str(values)[:80]!r}; expected a list, one a prompt")
            if len(values) != len(prompts):
                raise ValueError(f"{len(prompts)} prompts, but {len(values)} values of {name!r}")
        options = [{name: used[name][i] for name in used} for i in range(len(prompts))]
        rows = zip(prompts, completions, options, strict=True)
        read = (without_printed_nulls(row, FILLED) for row in conversations(rows))
        ids = self.model.ids_of_rows(read, self.texts)
        keys = [json.dumps(prompt, sort_keys=True, default=str) for prompt in prompts]
        return self.model.scaled(self.model.rewards_of_ids(ids, keys)).tolist()


def as_reward_func(
    model: ServedModel, name: str = "reward_model", **options: Any
) -> RewardFunction:
    """`(prompts, completions, **columns) -> one float per completion`.

    Columns `tools` and `chat_template_kwargs` are used, one value per completion; others are not.
    Completions of equal prompts are scored together. `name` is what trainers log it under.
    `options`: `tools` (schemas) and `chat_template_kwargs` of all rows, such as the trainer was
    given for the policy, which it hands to no function; a column's value of either comes first.

    Raises:
        ValueError: `model` is not one that `load_reward_model` gives; an option is none of these.
    """
    if not isinstance(model, ServedModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"a reward function was asked for of {str(model)[:80]!r} ({type(model).__name__}); "
            "expected a model that tasks.registration's load_reward_model loaded (training has "
            "another of that name): as_reward_func(load_reward_model(path))"
        )
    check_options(options)
    return RewardFunction(model, name, options)
