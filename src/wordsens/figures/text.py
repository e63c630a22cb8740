"""Words of any language in figures: fonts that have their characters, and no formula by accident.

The style's font is asked first, then what is installed: Matplotlib takes each character from the
first font of the family list that has it.  What no font has is shown as U+FFFD, and one line says
which characters these are and what would help.
"""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.font_manager import fontManager, get_font

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = "\ufffd"
# Families that draw well, before whatever else is installed; DejaVu Sans comes with Matplotlib.
PREFERRED = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR"),
    *("Source Han Sans SC", "WenQuanYi Zen Hei", "IPAexGothic", "IPAGothic", "NanumGothic"),
    *("PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic"),
    *("Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    *("Noto Emoji", "Symbola", "Segoe UI Symbol", "Segoe UI Emoji", "Arial Unicode MS"),
)
USELESS = ("Last Resort", "Unifont Upper", "Noto Color Emoji", "Apple Color Emoji", "Adobe Blank")
INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")  # categories that need no glyph
# What would help, by the first word of a character's Unicode name.
HELP = {
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC"), "Noto Sans CJK"),
    **{script: f"Noto Sans {script.capitalize()}" for script in ("ARABIC", "HEBREW", "THAI")},
}


@contextmanager
def fonts(tables: Iterable[pd.DataFrame], name: str) -> Iterator[None]:
    """Draw with fonts that have the characters of all tables; a line says which no font has."""
    wanted = {
        character
        for table in tables
        for column in table
        for value in table[column].unique()
        if isinstance(value, str)
        for character in value
    }
    family, missing = families(wanted)
    if missing:
        shown = " ".join(missing[:8]) + (" …" if len(missing) > 8 else "")
        print(
            f"{name}: no installed font has {len(missing)} of its characters ({shown}); they are "
            f"drawn as {UNKNOWN}; install a font such as {_help(missing)} and draw it again",
            file=sys.stderr,
        )
    with mpl.rc_context({"font.family": family}):
        yield


def families(characters: Iterable[str]) -> tuple[list[str], list[str]]:
    """The style's families and those that fill their gaps, and the characters that none has."""
    chosen = list(mpl.rcParams["font.family"])
    left = {c for c in characters if unicodedata.category(c) not in INVISIBLE}
    left -= {c for c in left if any(ord(c) in _charmap(family) for family in chosen)}
    if not left:
        return chosen, []
    installed = {font.name for font in fontManager.ttflist}
    others = sorted(installed - set(PREFERRED))
    for family in [*(name for name in PREFERRED if name in installed), *others]:
        if not left or family in chosen or family.startswith(USELESS):
            continue
        had = {c for c in left if ord(c) in _charmap(family)}
        if had:
            chosen.append(family)
            left -= had
    return chosen, sorted(left)


def shown(text: object) -> str:
    """Text as the current fonts can draw it, and no formula: for texts that parse mathematics."""
    return drawable(text).replace("$", r"\$")


def drawable(text: object) -> str:
    """Text as the current fonts can draw it, for texts with ``parse_math=False``."""
    _, missing = families(set(str(text)))
    return str(text).translate({ord(c): UNKNOWN for c in missing})


def slant(text: str) -> str:
    """The style of a quotation: slanted faces hold few scripts but Latin."""
    return "italic" if all(c < "\u0250" or c in "“”‘’…–—" for c in text) else "normal"


def wrapped(text: object, width: int) -> list[str]:
    """Lines of at most ``width`` columns; a character of East Asian scripts takes two."""
    one = " ".join(str(text).split())
    if columns(one) == len(one):
        return textwrap.wrap(one, width) or [""]
    lines, line = [], ""
    for character in one:
        if columns(line + character) > width:
            lines.append(line)
            line = ""
        line += character
    return [*lines, line]


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@cache
def _charmap(family: str) -> frozenset[int]:
    """The characters of a family's regular font; none where it is not installed."""
    faces = [font for font in fontManager.ttflist if font.name == family]
    regular = [font for font in faces if font.style == "normal" and font.weight in (400, "normal")]
    try:
        return frozenset(get_font((regular or faces)[0].fname).get_charmap())
    except (IndexError, OSError, RuntimeError):
        return frozenset()


def _help(missing: Iterable[str]) -> str:
    known: Mapping[str, None] = {
        HELP.get(unicodedata.name(c, "?").split()[0], ""): None for c in missing
    }
    named = [font for font in known if font]
    return " and ".join(named) or ("Noto Emoji" if max(missing) > "\uffff" else "Noto Sans")
