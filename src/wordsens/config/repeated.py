"""Keys that stand twice in one mapping of a YAML or JSON file, of which readers keep the last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def repeated_keys(path: Path) -> Iterator[str]:
    """One line for every key that repeats an earlier one; nothing for what is no YAML."""
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
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            waiting.append(value)
            name, line = (key.tag, str(key.value)), key.start_mark.line + 1
            if name in lines:
                yield (
                    f"line {line}: the key {key.value} is there twice, first in line "
                    f"{lines[name]}; keep one of them"
                )
            lines.setdefault(name, line)
