"""Which encoding bytes that are not UTF-8 may be in: a guess to be shown with what it reads."""

from __future__ import annotations

import codecs
import re

RUNS = re.compile(b"[\x80-\xff]+")  # other scripts than Latin have whole words of such bytes


def likely(content: bytes) -> str | None:
    """The name of an encoding that fits, as Python and iconv spell it; None where none does."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if content[1::2].count(0) > len(content) // 4:
        return "utf-16le"
    if content[::2].count(0) > len(content) // 4:
        return "utf-16be"
    if b"\0" in content:
        return None
    high = [byte for byte in content if byte >= 0x80]
    letters = sum(chr(byte).isalpha() for byte in content if byte < 0x80)
    alone = sum(len(run) == 1 for run in RUNS.findall(content))
    if len(high) <= letters / 2 or alone > len(high) / 2:  # accents among plain letters
        return _first(content, ("cp1252", "latin-1"))
    if sum(byte >= 0xC0 for byte in high) >= 0.9 * len(high):  # Cyrillic letters stand there
        return _first(content, ("cp1251",))
    if sum(byte < 0xA0 for byte in high) >= 0.25 * len(high):
        return _first(content, ("shift_jis", "gb18030", "cp1251"))
    korean = _decoded(content, "euc_kr")
    if korean and _share(korean, "\uac00", "\ud7a3") > 0.5:
        return "euc-kr"
    japanese = _decoded(content, "euc_jp")
    if japanese and _share(japanese, "\u3040", "\u30ff") > 0.3:
        return "euc-jp"
    return _first(content, ("gb18030", "big5", "cp1251", "cp1252"))


def _first(content: bytes, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if _decoded(content, name) is not None), None)


def _decoded(content: bytes, name: str) -> str | None:
    """Text in an encoding, the last few bytes of which may be cut; None where it does not fit."""
    for end in range(4):
        try:
            return content[: len(content) - end].decode(name)
        except UnicodeDecodeError:
            continue
    return None


def _share(text: str, first: str, last: str) -> float:
    """The share of characters of one script among those that are no ASCII."""
    others = [character for character in text if character > "\x7f"]
    return sum(first <= character <= last for character in others) / max(1, len(others))
