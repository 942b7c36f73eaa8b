"""YAML as params are written in it: each key once, no template left unfilled, nothing in itself.

read_yaml("- &d {name: s, path: a.jsonl}\\n- {<<: *d, name: s2}")    # merge keys are read
"""

import re
from collections.abc import Iterable
from typing import Any

import yaml
from yaml.composer import ComposerError

MERGE = "tag:yaml.org,2002:merge"
INT, FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
OTHER_BASE = re.compile(r"[-+]?0[0-9_]+|.*:.*")
"""Numbers that YAML 1.1 reads otherwise than they look: 010 is 8, 1:30 is 90."""


def read_yaml(text: str) -> Any:
    """The value that a text stands for.

    Raises:
        yaml.YAMLError: the text stands for none; what is wrong, with its line where that is known.
    """
    try:
        return yaml.load(text, _StrictLoader)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deep; params are a few levels of mappings") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # such as the 31st of February, or a tag that the value does not fit
        raise yaml.YAMLError(f"{error}; quote the text if it is meant as one") from None


class _StrictLoader(yaml.SafeLoader):
    """Looks at mappings as they are written, before merge keys put others' entries into them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open: list[str | None] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) and event.anchor in self._open:
            problem = f"*{event.anchor} stands within what it names; write out what is meant"
            raise ComposerError(None, None, problem, event.start_mark)
        self._open.append(event.anchor)
        node = super().compose_node(parent, index)
        self._open.pop()
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                problem = (
                    f"a {key_node.id} stands where a key is expected; if it is a template such as "
                    "{{NAME}}, fill it in or quote it"
                )
                raise ComposerError(None, None, problem, key_node.start_mark)
            key: Any = "<<" if key_node.tag == MERGE else self.construct_object(key_node)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: the key {key!r} stands twice in one mapping")
            seen.add(key)
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if node.tag in (INT, FLOAT) and OTHER_BASE.fullmatch(node.value):
            problem = (
                f"YAML reads {node.value} as {self.construct_object(node)!r}; write the number "
                "plainly, or quote it if it is meant as text"
            )
            raise ComposerError(None, None, problem, node.start_mark)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge keys by their rule: a mapping's own entry, else that of the first one named.

        PyYAML 6.0.4 takes two keys of one letter for one, and keeps the lowest: {r: 4} in
        {<<: {<<: {r: 4}, r: 8}}.
        """
        merged: dict[Any, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            if key_node.tag != MERGE:
                continue
            named = value_node.value if value_node.id == "sequence" else [value_node]
            if any(each.id != "mapping" for each in named):
                break  # for the error below
            for each in reversed(named):
                self.flatten_mapping(each)
                merged |= self._by_key(each.value)
        else:
            own = self._by_key(pair for pair in node.value if pair[0].tag != MERGE)
            node.value = list((merged | own).values())
        super().flatten_mapping(node)

    def _by_key(
        self, pairs: Iterable[tuple[yaml.Node, yaml.Node]]
    ) -> dict[Any, tuple[yaml.Node, yaml.Node]]:
        return {self.construct_object(key): (key, value) for key, value in pairs}
