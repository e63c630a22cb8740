"""Word pieces as a reader wants them: bytes decoded, and what continues a word marked by ##.

Tokenizers write a piece in three ways.  WordPiece marks the piece that continues a word (##ing);
SentencePiece marks the space before one that begins a word (▁the); byte-level BPE does the same
and writes every byte of UTF-8 as a character of its own (Ġcaf, Ã©).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

CONTINUES = "##"
WORDPIECE, SENTENCEPIECE, BYTES, PLAIN = "wordpiece", "sentencepiece", "bytes", "plain"
SPACES = {SENTENCEPIECE: "▁", BYTES: "Ġ"}
# Characters that would not be seen, or not all fonts have.
VISIBLE = {" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥", "▁": "␣"}
LEAST = 0.01  # the share of a vocabulary that bears a tokenizer's mark


def style_of(vocabulary: Iterable[str]) -> str:
    """How a tokenizer with this vocabulary writes its pieces."""
    total, counts = 0, {WORDPIECE: 0, SENTENCEPIECE: 0, BYTES: 0}
    for piece in vocabulary:
        total += 1
        for style, mark in {WORDPIECE: CONTINUES, **SPACES}.items():
            counts[style] += piece.startswith(mark)
    style = max(counts, key=lambda name: counts[name])
    return style if counts[style] > LEAST * total else PLAIN


def shown(pieces: Sequence[str], style: str) -> list[str]:
    """Pieces that stand for themselves, as in a list of words: no text around them."""
    return [_shown(piece, style, True) for piece in pieces]


def shown_in_text(pieces: Sequence[str], style: str) -> list[str]:
    """Pieces that follow each other in a text; the first one begins a word."""
    found, after_word = [], False
    for piece in pieces:
        found.append(_shown(piece, style, after_word))
        decoded = _decoded(piece, style)
        # A part of a character is taken for a letter, which it mostly is.
        after_word = decoded is None or (bool(decoded) and _in_word(decoded[-1]))
    return found


def joined(pieces: Sequence[str], style: str) -> str:
    """Pieces as running text."""
    if style == BYTES:
        raw = b"".join(_bytes(piece) for piece in pieces)
        return raw.decode(errors="replace").strip()
    if style == SENTENCEPIECE:
        return "".join(pieces).replace("▁", " ").strip()
    return " ".join(pieces).replace(f" {CONTINUES}", "")


def _shown(piece: str, style: str, after_word: bool) -> str:
    if style not in SPACES:
        return _visible(piece)
    if style == BYTES and _decoded(piece, style) is None:
        # A part of a character.
        return "".join(f"<0x{byte:02X}>" for byte in _bytes(piece).removeprefix(b" "))
    decoded = _decoded(piece, style) or ""
    begins = decoded.startswith(" ")
    bare = decoded.removeprefix(" ") or decoded
    continues = not begins and after_word and bool(bare) and _in_word(bare[0])
    return (CONTINUES if continues else "") + _visible(bare)


def _decoded(piece: str, style: str) -> str | None:
    """A piece as the text it stands for; None where it is a part of a character."""
    if style == SENTENCEPIECE:
        return piece.replace("▁", " ")
    if style != BYTES:
        return piece
    try:
        return _bytes(piece).decode()
    except UnicodeDecodeError:
        return None


def _in_word(character: str) -> bool:
    """Whether a character is of a script that puts spaces between words."""
    wide = unicodedata.east_asian_width(character) in "WF"
    return (character.isalnum() or unicodedata.category(character) == "Mn") and not wide


def _visible(text: str) -> str:
    written = "".join(VISIBLE.get(character, character) for character in text)
    if written.isprintable():
        return written
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in written)


def _bytes(piece: str) -> bytes:
    known = _byte_of()
    # Special tokens are written as they are.
    return b"".join(
        bytes([known[character]]) if character in known else character.encode()
        for character in piece
    )


@cache
def _byte_of() -> dict[str, int]:
    """Byte-level BPE's alphabet: printable Latin-1 is itself, the others follow from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }
