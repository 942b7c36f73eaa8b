"""The tokenizer that a trainer works with: given or the model's, with its special tokens and its
chat template."""

import datetime
import logging
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tasks.errors import ModelError, ParamsError, meant, shown
from tasks.model.directory import tokenizer_files
from tasks.model.tokenizer_class import CHOOSING_TYPES, PLAIN_CLASSES
from tasks.templating.template import merged_template, pin, read_template
from tasks.templating.tokenizer.bos import with_one_bos
from tasks.templating.tokenizer.loaded import cannot_be_loaded
from tasks.training.model.soundness import PLACE, place_of
from tasks.training.settings.config import RewardConfig

logger = logging.getLogger(__name__)

TOKENIZERS_PLACE = tuple(name for name in PLACE if name != "subfolder")
"""Those of `model_init_kwargs` that say where the tokenizer is, too."""


def load_tokenizer(name: str, **options: Any) -> PreTrainedTokenizerBase:
    """The tokenizer of a directory or hub id; `options` go to `from_pretrained`.

    Raises:
        ParamsError: there is none, or it brings code that is not to be run.
        ModelError: its files are damaged.
    """
    known = Path(name).is_dir()
    absent = ParamsError(
        f"there is no tokenizer beside the model {name!r}"
        f"{'' if known else ', which is no directory here, nor a repository that can be read'}"
        "; pass it as processing_class"
    )
    try:
        found: Any = AutoTokenizer.from_pretrained(name, **{"trust_remote_code": False, **options})
    except Exception as error:  # of a damaged file transformers raises whatever it meets
        if "trust_remote_code" in str(error):
            raise ParamsError(
                f"the tokenizer of {name!r} asks to run code of its own, which is refused unless "
                "RewardConfig says trust_remote_code=True"
            ) from error
        there = known and tokenizer_files(Path(name))
        if there or not isinstance(error, OSError | ValueError):
            raise cannot_be_loaded(name, error) from error
        raise absent from error
    if found.get_vocab().keys() <= {str(token) for token in found.added_tokens_decoder.values()}:
        raise absent  # where there is no file, transformers makes one up for some families
    return found


def prepare_tokenizer(
    tokenizer: PreTrainedTokenizerBase | None, args: RewardConfig, model_name: str
) -> tuple[PreTrainedTokenizerBase, list[int]]:
    """The tokenizer, given or the model's, with the special tokens and the template of `args`; and
    the ids of tokens that it got with the template.

    A template that asks for today's date gets the date of this day written into it, so that the
    model leaves with the template that its rows were rendered by. Where the tokenizer puts a BOS
    before every text, the template is completed to write it once, as in the templating stage.

    Raises:
        ParamsError: there is no tokenizer, or none at `chat_template_path`; or it has not the
            tokens that are asked for.
        TemplateError: the template depends on chance, or writes the BOS twice.
    """
    if tokenizer is not None:
        _warn_of_another(tokenizer, model_name)
    else:
        options = loading_options(args)
        place = place_of(options, TOKENIZERS_PLACE)
        trusted = options["trust_remote_code"]
        tokenizer = load_tokenizer(model_name, trust_remote_code=trusted, **place)
    added: list[int] = []
    if args.chat_template_path is not None:  # it may bring the tokens that are asked for
        added = _take_template(tokenizer, args.chat_template_path, args.trust_remote_code)
    for setting in ("eos_token", "pad_token"):
        if getattr(args, setting) is not None:
            _check_token(tokenizer, setting, getattr(args, setting))
            tokenizer.add_special_tokens({setting: getattr(args, setting)})
    if tokenizer.chat_template is not None:
        template = merged_template(tokenizer.chat_template)
        today = datetime.datetime.now(datetime.UTC).date()
        tokenizer.chat_template = pin(template, today)
        if tokenizer.chat_template != template:
            logger.warning("the chat template asks for today's date; it is fixed to %s", today)
        tokenizer.chat_template = with_one_bos(tokenizer)
    return tokenizer, added


def loading_options(args: RewardConfig) -> dict[str, Any]:
    """Arguments of `from_pretrained` for a model that is given as a path."""
    settings: Any = args.model_init_kwargs or {}  # a dict by now: the config has parsed text
    return {"trust_remote_code": args.trust_remote_code, **settings}


def _warn_of_another(tokenizer: PreTrainedTokenizerBase, model_name: str) -> None:
    """Warns where ids stand for other tokens than in the tokenizer beside the model, if one that
    can be loaded without running its code is there."""
    if not any((Path(model_name) / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        return
    try:
        own = load_tokenizer(model_name).get_vocab()
    except (ParamsError, ModelError):
        return
    vocabulary = tokenizer.get_vocab()
    moved = [token for token, number in own.items() if vocabulary.get(token, number) != number]
    absent = [token for token in own if token not in vocabulary]
    if moved or absent:
        logger.warning(
            "the tokenizer is not the one beside %s: %d of its tokens have other ids and %d are "
            "absent (%s); the model would read other words than were written",
            model_name,
            len(moved),
            len(absent),
            ", ".join(map(shown, [*moved, *absent][:3])),
        )


def tell_of_class(tokenizer: PreTrainedTokenizerBase, model_type: str) -> None:
    """Warns where the saved model's tokenizer will be loaded as one of another class."""
    name = type(tokenizer).__name__
    if name in PLAIN_CLASSES and model_type in CHOOSING_TYPES:
        logger.warning(
            "the tokenizer is a %s, and beside a model of type %s AutoTokenizer loads another "
            "class, which may give other ids than those trained on; pass the tokenizer as "
            "AutoTokenizer loads it from a directory with the model's config.json",
            *(name, model_type),
        )


def _check_token(tokenizer: PreTrainedTokenizerBase, setting: str, token: str) -> None:
    """Refuses a special token that would be a new one, which the model has never read.

    Raises:
        ParamsError: as above, with the nearest of the tokenizer's special tokens.
    """
    if token in tokenizer.get_vocab():
        return
    known = [str(added) for added in tokenizer.added_tokens_decoder.values()]
    raise ParamsError(
        f"{setting} is {token!r}, which the tokenizer does not have{meant(token, known)}; name a "
        f"token of its vocabulary, or leave {setting} out"
    )


def _take_template(tokenizer: PreTrainedTokenizerBase, source: str, trusted: bool) -> list[int]:
    """Gives the tokenizer the template of a Jinja file, or that and the tokens of another one,
    whose ids are returned."""
    if Path(source).is_file():
        tokenizer.chat_template = read_template(Path(source))
        return []
    try:
        other: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=trusted)
    except (OSError, ValueError) as error:
        raise ParamsError(
            f"chat_template_path {source!r} is neither a Jinja file nor a tokenizer"
        ) from error
    if other.chat_template is None:
        raise ParamsError(f"chat_template_path {source!r} is a tokenizer without a chat template")
    tokenizer.chat_template = other.chat_template
    known = tokenizer.get_vocab()
    added = [t for _, t in sorted(other.added_tokens_decoder.items()) if str(t) not in known]
    tokenizer.add_tokens(added)
    return [tokenizer.get_vocab()[str(token)] for token in added]
