"""Prompts that differ in one word, put to an instruction-tuned causal model (Figure 1, right)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.data.weights import load_model, read_tokenizer
from wordsens.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    import torch

# A model may answer with or without a leading space; either is the same answer.
SPELLINGS = ("{}", " {}")


class CausalModel:
    """A causal language model with its tokenizer and chat template, float32."""

    def __init__(self, model: Any, tokenizer: Any, key: str) -> None:
        self.model, self.tokenizer, self.key = model, tokenizer, key

    @classmethod
    def open(cls, folder: str | Path, key: str = "model", device: str = "cpu") -> CausalModel:
        """Load a folder that ``fetch_model`` made: safetensors weights, or one GGUF file.

        Raises UserError, starting with ``key``, for a model that generates no text or has no chat
        template.
        """
        path = Path(folder)
        tokenizer = read_tokenizer(path, key)
        model = load_model(path, key, "AutoModelForCausalLM", attention=None)
        if not tokenizer.chat_template:
            raise UserError(
                f"{key}: {folder} has no chat template; choose an instruction-tuned model"
            )
        return cls(model.to(device), tokenizer, key)

    @property
    def max_tokens(self) -> int:
        """The length of the context."""
        return int(getattr(self.model.config, "max_position_embeddings", 0) or 1 << 30)

    def prompt_ids(self, prompt: str) -> list[int]:
        """The prompt as the user's turn of a chat, up to where the model's answer begins."""
        turn = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def first_pieces(self, word: str) -> list[int]:
        """The token ids with which an answer that begins with ``word`` may begin."""
        found = []
        for spelling in SPELLINGS:
            ids = self.tokenizer(spelling.format(word), add_special_tokens=False)["input_ids"]
            # Of a word in several pieces the first counts; a piece that is all space says nothing.
            ids = [piece for piece in ids if self.tokenizer.decode([piece]).strip()]
            found += ids[:1]
        return sorted(set(found))


def prompts_table(
    model: CausalModel, prompts: Sequence[str], answers: Sequence[str], tokens: int, key: str
) -> pd.DataFrame:
    """Each prompt's greedy answer, and how much likelier one answer is than the other.

    ``answers`` are two words A and B, as Yes and No.  log p(A) is the log-probability that the next
    token begins the word A, spelt with or without a leading space; where A is several tokens, the
    first stands for it.  Columns: prompt, answer, log_p_first, log_p_second, difference, tokens.

    Raises UserError for a prompt whose answer would not fit into the context, and for two answers
    that begin with the same token.
    """
    import pandas as pd
    import torch

    pieces = [model.first_pieces(word) for word in answers]
    if set(pieces[0]) & set(pieces[1]):
        raise UserError(
            f"{key}.answers: {' and '.join(answers)} begin with the same token of this model; "
            "choose other answers"
        )
    rows = []
    for number, prompt in enumerate(prompts):
        ids = model.prompt_ids(prompt)
        if len(ids) + tokens > model.max_tokens:
            raise UserError(
                f"{key}.prompts[{number}]: {len(ids)} tokens and an answer of up to {tokens} do "
                f"not fit into the context of {model.max_tokens}; shorten the prompt"
            )
        batch = torch.tensor([ids], device=model.model.device)
        with torch.inference_mode():
            logits = model.model(input_ids=batch).logits[0, -1].double()
            found = [_log_probability(logits, own) for own in pieces]
            answer = _greedy(model, batch, tokens)
        rows.append(
            {
                "prompt": prompt,
                "answer": answer,
                "log_p_first": found[0],
                "log_p_second": found[1],
                "difference": found[0] - found[1],
                "prompt_tokens": len(ids),
            }
        )
    return pd.DataFrame(rows).assign(first=answers[0], second=answers[1])


def _log_probability(logits: torch.Tensor, pieces: list[int]) -> float:
    chosen = logits.log_softmax(0)[pieces]
    return float(chosen.logsumexp(0))


def _greedy(model: CausalModel, batch: torch.Tensor, tokens: int) -> str:
    import torch

    tokenizer = model.tokenizer
    padding = (
        tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    )
    written = model.model.generate(
        input_ids=batch,
        attention_mask=torch.ones_like(batch),
        max_new_tokens=tokens,
        do_sample=False,
        pad_token_id=padding,
    )
    return str(tokenizer.decode(written[0, batch.shape[1] :], skip_special_tokens=True)).strip()
