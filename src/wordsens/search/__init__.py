"""Searches for the supremum over a product of balls, and ``word_sensitivity``."""

from wordsens.search.ascent import Found, climb
from wordsens.search.published import published_ascent
from wordsens.search.sensitivity import Sensitivity, word_sensitivity

__all__ = ["Found", "Sensitivity", "climb", "published_ascent", "word_sensitivity"]
