"""Searches for the supremum over a product of balls, and ``word_sensitivity``."""

from wordsens.search.auditing import Audit, audit, audited_trials
from wordsens.search.maximum import Maximum
from wordsens.search.power import climb
from wordsens.search.published import published_ascent
from wordsens.search.sensitivity import Sensitivity, word_sensitivity

__all__ = [
    "Audit",
    "Maximum",
    "Sensitivity",
    "audit",
    "audited_trials",
    "climb",
    "published_ascent",
    "word_sensitivity",
]
