"""Follow the recipe for a request type in ARCHITECTURE.md with a toy: evacuate one named node."""

from __future__ import annotations

from . import Changes, Toy

HANDLER = '''"""Evacuate a node."""

from __future__ import annotations

from iallocator.handlers.node_evacuate import node_evacuate

__all__ = ["empty_node"]


def empty_node(context, request):
    """Answer as an evacuation of all instances of the node."""
    return node_evacuate(context, request)
'''

SCHEMA = """{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "empty-node.schema.json",
  "title": "Request: empty-node",
  "type": "object",
  "required": ["type", "node"],
  "properties": {"type": {"const": "empty-node"}, "node": {"type": "string"}}
}
"""

PLACES: Changes = {
    ("iallocator/requests/existing.py", "Request"): (
        "\n\nRequest = (\n    Allocate\n",
        '''

class EmptyNode(NodeEvacuate):
    """Take all instances off a node."""

    __slots__ = ("node",)

    kind = "empty-node"

    def __init__(self, node: str, instances: Sequence[Instance]) -> None:
        super().__init__(instances, "all")
        self.node = node

    def summary(self, cluster: Cluster) -> str:
        """Return the name of the node."""
        return self.node
<ANCHOR>    | EmptyNode
''',
    ),
    ("iallocator/wire/request.py", "READERS"): (
        '    "multi-evacuate": _multi_evacuate,\n}\n',
        """    "multi-evacuate": _multi_evacuate,
    "empty-node": lambda raw, cluster, reading: _empty_node(raw, cluster),
}


def _empty_node(raw: Raw, cluster: Cluster) -> Request:
    from iallocator.requests.existing import EmptyNode

    (index,) = _nodes([text(raw, "node")], cluster, "node")
    held = [one for one in cluster.instances if index in one.nodes[:1]]
    return EmptyNode(text(raw, "node"), held)


""",
    ),
    ("iallocator/handlers/__init__.py", "HANDLERS"): (
        '    "multi-evacuate": "node_evacuate",\n',
        '<ANCHOR>    "empty-node": "empty_node",\n',
    ),
    ("iallocator/handlers/empty_node.py", ""): ("", HANDLER),
    ("schemas/request.schema.json", "multi-evacuate"): (
        '            "multi-evacuate"\n          ]',
        '            "empty-node",\n<ANCHOR>',
    ),
    ("schemas/request.schema.json", "multi-evacuate.schema.json"): (
        '          "then": {"$ref": "multi-evacuate.schema.json"}\n        }',
        """<ANCHOR>,
        {
          "if": {"required": ["type"], "properties": {"type": {"const": "empty-node"}}},
          "then": {"$ref": "empty-node.schema.json"}
        }""",
    ),
    ("schemas/response.schema.json", "multi-evacuate"): (
        '    "multi-evacuate": {\n      "title"',
        """    "empty-node": {
      "title": "response to empty-node",
      "$ref": "#",
      "if": {"required": ["success"], "properties": {"success": {"const": true}}},
      "then": {"properties": {"result": {"$ref": "#/$defs/moves"}}}
    },
<ANCHOR>""",
    ),
    ("schemas/empty-node.schema.json", ""): ("", SCHEMA),
}

TOY = Toy(
    "request type",
    "request_paths.py",
    PLACES,
    most_files=8,
    phrases=[
        ("request type", "a module in `iallocator/handlers/`"),
        ("request type", "a schema of its members in `schemas/`"),
    ],
)
