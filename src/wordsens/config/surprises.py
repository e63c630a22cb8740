"""What readers of YAML take without a word: keys that stand twice, yes as a key, other bases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# 010 is eight and 1:30 is ninety in the YAML that Snakemake reads.
OTHER_BASE = re.compile(r"[-+]?(0[0-9_]+|[0-9_]+(:[0-9]+)+)")


def surprises(path: Path) -> Iterator[str]:
    """One line for every key that repeats an earlier one, of which readers keep the last, and for
    every whole number that is not the decimal one it looks like; nothing for what is no YAML."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError):
        return
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # reached by an alias, too
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        whole = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int")
        if whole and OTHER_BASE.fullmatch(node.value):
            yield (
                f"line {node.start_mark.line + 1}: {node.value} is {yaml.safe_load(node.value)} in "
                "YAML; write that, or quote what is a text"
            )
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            waiting.append(value)
            if key.tag.endswith(":bool"):
                yield (
                    f"line {key.start_mark.line + 1}: the key {key.value} is a truth value in YAML "
                    f'and no text; write "{key.value}"'
                )
            name, line = (key.tag, str(key.value)), key.start_mark.line + 1
            if name in lines:
                yield (
                    f"line {line}: the key {key.value} is there twice, first in line "
                    f"{lines[name]}; keep one of them"
                )
            lines.setdefault(name, line)
