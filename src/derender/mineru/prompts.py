"""The checkpoint's own tokenizer and chat template: a task and a picture's size become token ids, ids become text.

Everything that the model was trained to see around a picture comes from the folder's files. They are tried when they
are loaded: a mask id that is not the tokenizer's, or a template that leaves out the picture, the task or the answer's
beginning, is an error that names it. Does not look at pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from derender.errors import MissingExtraError, ModelError
from derender.mineru.config import MineruConfig, read_json
from derender.mineru.options import LAYOUT_PROMPT
from derender.recognise.types import TASKS, Task

SYSTEM = "You are a helpful assistant."
TASK_PROMPTS: dict[Task, str] = {
    "text": "\nText Recognition:",
    "formula": "\nFormula Recognition:",
    "table": "\nTable Recognition:",
    "layout": f"\n{LAYOUT_PROMPT}",
}
MASK = "<|MASK|>"
ENDS = ("<|endoftext|>", "<|im_end|>")
TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")


class Prompts:
    """end_ids: tokens that end a text. known: ids that have a token. Raises ModelError where the folder's files do not
    fit together."""

    def __init__(self, folder: Path, config: MineruConfig, layout_prompt: str = LAYOUT_PROMPT) -> None:
        self.folder, self.config = folder, config
        self._tokenizer = _load_tokenizer(folder)
        self._vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        self.known = tuple(sorted(self._vocabulary.values()))
        self._token(MASK, config.mask_id, "mask_token_id")
        self.end_ids = tuple(self._token(end) for end in ENDS)
        self._template_file, template = find_template(folder)
        self._words = task_prompts(layout_prompt)
        self._prompts = {task: self._prompt(task, template) for task in TASKS}

    def ids(self, task: Task, visual_tokens: int) -> list[int]:
        """The prompt of a task for a picture of that many visual tokens."""
        before, after = self._prompts[task]
        return [*before, *[self.config.image_id] * visual_tokens, *after]

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones written out: layout and tables are made of them."""
        decoded = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(decoded)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token's own text; a character that several tokens make up is a replacement character in each."""
        return [self.text([token]) for token in ids]

    def _token(self, token: str, wanted: int | None = None, key: str = "") -> int:
        found = self._vocabulary.get(token)
        if found is None:
            raise ModelError(f"the tokenizer in {self.folder} has no {token}")
        if wanted is not None and found != wanted:
            raise ModelError(
                f"{self.folder}: {token} is {found} in the tokenizer, and {key} in config.json is {wanted}"
            )
        return int(found)

    def _prompt(self, task: Task, template: str) -> tuple[list[int], list[int]]:
        """Ids before and after the picture."""
        name = f"the chat template in {self.folder / self._template_file}"
        words = self._words[task]
        messages = [
            {"role": "system", "content": [{"type": "text", "text": SYSTEM}]},
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": words}]},
        ]
        try:
            open_end, closed = (
                self._tokenizer.apply_chat_template(
                    messages, chat_template=template, add_generation_prompt=flag, tokenize=False
                )
                for flag in (True, False)
            )
        except ImportError as error:
            raise MissingExtraError(f"{name} cannot be read: {error}; pip install 'derender[torch]'") from error
        except Exception as error:  # whatever a template raises
            raise ModelError(f"{name} does not fit a picture with a task: {error}") from error
        if not open_end.startswith(closed) or open_end == closed:
            raise ModelError(f"{name} does not open the answer: add_generation_prompt has no effect")
        for part in (SYSTEM, words.strip()):
            if part not in open_end:
                raise ModelError(f"{name} leaves out {part!r}")
        ids = self._tokenizer(open_end, add_special_tokens=False)["input_ids"]
        image = self.config.image_id
        if ids.count(image) != 1:
            raise ModelError(f"{name} writes the image token {image} {ids.count(image)} times for one picture")
        if self.config.mask_id in ids:
            raise ModelError(f"{name} writes the mask token")
        at = ids.index(image)
        if words.strip() not in self.text(ids[at:]):
            raise ModelError(f"{name} puts the task before the picture")
        return ids[:at], ids[at + 1 :]


def task_prompts(layout_prompt: str) -> dict[Task, str]:
    """TASK_PROMPTS with other words for the layout."""
    return {**TASK_PROMPTS, "layout": f"\n{layout_prompt.strip()}"}


def find_template(folder: Path) -> tuple[str, str]:
    """File name and text of the chat template, looked for as a processor of the transformers package does."""
    for name in TEMPLATES:
        path = folder / name
        if not path.is_file():
            continue
        template = path.read_text(encoding="utf-8") if name.endswith(".jinja") else read_json(path).get("chat_template")
        if isinstance(template, str) and template:
            return name, template
        if name == "chat_template.json":
            raise ModelError(f"{path} has no chat_template")
    raise ModelError(f"{folder} has no chat template: none of {', '.join(TEMPLATES)} holds one")


def _load_tokenizer(folder: Path) -> Any:
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtraError("MinerU-Diffusion needs transformers: pip install 'derender[torch]'") from error
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise ModelError(f"{folder} has no {name}, so it is no complete model folder")
    try:
        # Not AutoTokenizer: what counts is tokenizer.json as it stands, not a class's idea of it.
        return PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # anything a damaged file makes the library raise
        raise ModelError(f"the tokenizer in {folder} cannot be loaded: {' '.join(str(error).split())[:200]}") from error
