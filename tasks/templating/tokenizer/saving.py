"""The tokenizer's directory that tokenization keeps for the model, with the template that was used.

    plain files (`plain_files`)    are copied
    others                         transformers loads and saves them, in its own form

So the saved files may differ in their bytes from the model's. The encoder is built from the saved
files; for a large vocabulary that takes a second, so it is started while templating renders.
"""

import shutil
from copy import copy
from pathlib import Path

from tasks.artifact.durable import writing
from tasks.templating.tokenizer.loaded import loaded
from tasks.templating.tokenizer.plain_files import is_plain
from tasks.templating.tokenizer.tokenizer_file import (
    TokenizerFile,
    has_fastokens,
    of_content,
    tokenizer_file,
)


def begin_encoder(model: Path) -> None:
    """Starts building, in a thread, the fast encoder of the tokenizer.json that `save` will write,
    if it will write one: this process tokenizes after it has rendered."""
    if has_fastokens() and (file := _file_as_saved(model)):
        file.begin()


def _file_as_saved(model: Path) -> TokenizerFile | None:
    if is_plain(model):
        return tokenizer_file(model)
    tokenizer = loaded(model)
    if not tokenizer.is_fast:
        return None
    return of_content(tokenizer.backend_tokenizer.to_str(pretty=True).encode())


def save(model: Path, template: Path, directory: Path) -> None:
    """Saves the model's tokenizer, with the chat template of the file `template` if it exists."""
    if is_plain(model):
        copied = [model / name for name in ("tokenizer.json", "tokenizer_config.json")]
        for source in (*copied, *([template] if template.exists() else ())):
            with writing(directory / source.name, "later") as path:
                shutil.copyfile(source, path)
        return
    tokenizer = copy(loaded(model))
    if template.exists():
        tokenizer.chat_template = template.read_text("utf-8")
    tokenizer.save_pretrained(directory)
