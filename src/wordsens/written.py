"""Entries that model_report adds, called by what the user wrote: encoder, texts or report."""

from __future__ import annotations

import re

# A key of an entry whose name begins as report_name's do.
_ADDED = re.compile(
    r"\b(corpora|encoders|datasets|layers|attraction|attention|vocabulary|figures"
    r"|explanations|classifiers)"
    r"\.own_[A-Za-z0-9_]+(?:\.([a-z_]+))?"
)
_REPORT = (
    *("n", "trials", "layers", "starts", "steps"),
    *("text", "texts", "tokens", "windows", "effort"),
)
_MEANT = {
    ("datasets", "tokens"): "report.n",
    ("attraction", "tokens"): "report.n",
    ("attraction", "position"): "report.n",
    ("attraction", "text"): "texts",
    ("vocabulary", "d"): "encoder",
    ("layers", "positions"): "report.n",
    ("classifiers", "corpus"): "texts",
}
_SECTIONS = {"corpora": "texts", "encoders": "encoder", "datasets": "texts"}
_KEYS = {"dataset": "texts", "corpus": "texts", "encoder": "encoder"}


def as_written(text: str) -> str:
    """A key, or a message with keys in it, with added keys as those that they come from."""

    def meant(match: re.Match[str]) -> str:
        section, key = match.groups()
        if (section, key) in _MEANT:
            return _MEANT[section, key]
        if key in _REPORT:
            return f"report.{key}"
        return _KEYS.get(key) or _SECTIONS.get(section, "report")

    return _ADDED.sub(meant, text)
