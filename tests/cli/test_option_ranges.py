"""Test the range of every numeric option: its ends are accepted, values beyond are rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS, options_of
from iallocator.options.settings import REQUEST_SETTINGS
from iallocator.options.table import COMMON, Option
from iallocator.options.values import Numbers, Size
from iallocator.tolerances import LARGEST_NUMBER
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, group, instance
from tests.command import json_of, respond

from .effects import EFFECTS, NEEDS_A_SERVER, Effect

TABLES = {"": COMMON, **{command: options_of(command) for command in COMMANDS}}

RANGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "score": (("-INFINITY", "INFINITY", "1.5", "9" * 30), ("", "-", "1x", "nan", "1e400")),
    "size": (("0,0,0", "999999999t,999999999t,99999,99999"), ("-1,0,0", "0,0", "1,1,1,1,1")),
    "disk_reserve": (("0", "0%", "100%", "9007199254740992"), ("-1", "101%", "%", "5x")),
    "priority": (("-20", "19"), ("-21", "20")),
}
"""Name of a parser -> values at the ends of its range, and values beyond them."""

ENDS_REJECTED = {("make-room", "--make-room", "0")}
"""Ends of a range that one command rejects for a reason of its own."""

SIZES = ("-1m", "m", "1x", "1e400g", "nang")
"""Texts that are not sizes, or are beyond the range of every option."""


def ends(option: Option) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return values at the ends of the range of `option`, and values beyond them."""
    read = option.read
    if isinstance(read, Numbers):
        beyond = [
            number + 2 * sign if abs(number) == LARGEST_NUMBER else number + sign / (2 - read.whole)
            for number, sign in ((read.lowest, -1), (read.highest, 1))
        ]
        whole = int if read.whole else float
        sizes = SIZES if isinstance(read, Size) else ()
        wrong = (*(f"{whole(one)}" for one in beyond), *sizes)
        return (f"{read.lowest}", f"{read.highest}"), wrong
    return RANGES.get(getattr(read, "__name__", ""), ((), ()))


NUMBERED = [
    (command, option)
    for command, table in TABLES.items()
    for option in table
    if ends(option)[0] and option.names[0] not in NEEDS_A_SERVER
]


def effect_of(command: str, option: Option) -> Effect:
    """Return a document and arguments with which `command` can be run with `option`."""
    name = option.names[0]
    if (command, name) in EFFECTS:
        return EFFECTS[command, name]
    if (command, name) == ("replay", "--jobs"):
        return EFFECTS[command, "--update"]
    assert command == "ask"
    usual = EFFECTS["ask", "--max-input"]
    page = ("--html={folder}/page.html",) if name == "--bandwidth" else ()
    return Effect(usual.document, "", (*usual.words, "--make-room=1", *page), usual.files)


def status_of(effect: Effect, command: str, word: str, folder: Path) -> int:
    """Return the exit status of the command with `word` in place of the tested option."""
    folder.mkdir()
    for name, text in effect.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    words = [each.replace("{folder}", str(folder)) for each in effect.words]
    if effect.document is not None:
        path = str(folder / "document.json")
        (folder / "document.json").write_bytes(as_bytes(effect.document))
        words = [*words, path] if command == "rescue" else [path, *words]  # first its node
    words = [command, *words] if command else words
    limited = any(option.target == "time_limit" for option in TABLES[command])
    limited = limited and command != "show"  # where only the page has a time limit
    if limited and not any(each.startswith("--time-limit") for each in (*words, word)):
        words.append("--time-limit=2")  # the largest numbers are a lot of work
    return main([*words, word])


@pytest.mark.parametrize(
    ("command", "option"),
    NUMBERED,
    ids=lambda value: value.names[0] if isinstance(value, Option) else value or "request",
)
def test_option_at_both_ends_of_its_range_is_accepted_and_beyond_them_rejected(
    command: str, option: Option, tmp_path: Path, capsys: Capture
) -> None:
    """Each option is accepted at both ends of its range, and rejected beyond them."""
    effect, name = effect_of(command, option), option.names[0]
    within, beyond = ends(option)
    for number, value in enumerate(within):
        status = status_of(effect, command, f"{name}={value}", tmp_path / f"within{number}")
        output = capsys.readouterr().err
        assert status in (0, 1, 2, 3), output
        assert f"{name}: expected" not in output
        assert status != 2 or (command, name, value) in ENDS_REJECTED or name == "--max-input", (
            output
        )
    for number, value in enumerate(beyond):
        assert status_of(effect, command, f"{name}={value}", tmp_path / f"beyond{number}") == 2
        rejected = capsys.readouterr()
        assert rejected.out == ""
        assert f"{name}: expected " in rejected.err
        assert rejected.err.count("\n") == 1


def in_request(key: str, value: object) -> Json:
    """Return the answer to a relocation request with a member `key` of the given `value`."""
    document = cluster(instances={"a": instance("node1", "node2")})
    asked = {"type": "relocate", "name": "a", "relocate_from": ["node2"], "required_nodes": 1}
    return respond({**document, "request": {**asked, key: value}})


def in_tag(key: str, value: object, of_group: bool) -> Json:
    """Return the answer to a relocation request if a tag sets the option `key` to `value`.

    The tag is on the node group if `of_group`, otherwise on the cluster.
    """
    document = cluster(instances={"a": instance("node1", "node2")})
    tags = [f"iallocator:{key}:{value}"]
    if of_group:
        document["nodegroups"]["uuid-default"] = group(tags=tags)
    else:
        document["cluster_tags"] = tags
    asked = {"type": "relocate", "name": "a", "relocate_from": ["node2"], "required_nodes": 1}
    return respond({**document, "request": asked})


SETTINGS_WITH_RANGES = [
    (option.names[0][2:], option.read)
    for option in COMMON
    if option.names[0][2:] in REQUEST_SETTINGS and isinstance(option.read, Numbers)
]


@pytest.mark.parametrize(("key", "read"), SETTINGS_WITH_RANGES, ids=lambda value: str(value)[:12])
def test_request_key_or_tag_out_of_range_causes_a_warning_and_the_default_counts(
    key: str, read: Numbers
) -> None:
    """A request key or tag out of range has no effect, and `info` has a warning."""
    usual = in_request("name", "a")
    for end, sign in ((read.lowest, -1), (read.highest, 1)):
        value = int(end) if read.whole else end
        beyond = value + 2 * sign
        for found, place in (
            (in_request(key, beyond), f"request/{key}"),
            (in_tag(key, beyond, False), f"tag of the cluster: iallocator:{key}:{beyond}"),
            (in_tag(key, beyond, True), f"tag of group default: iallocator:{key}:{beyond}"),
        ):
            assert f"{place} does not count: expected {read}" in found["info"]
            assert (found["success"], found["result"]) == (True, usual["result"])
        for found in (in_request(key, value), in_tag(key, value, False), in_tag(key, value, True)):
            assert "does not count: expected" not in found["info"]
            assert found["success"] or (key, value) == ("time-limit", 0)


def test_config_shows_the_default_where_the_request_is_out_of_range() -> None:
    """`config` shows the default and a warning if a request key is out of range."""
    document = cluster(instances={"a": instance("node1", "node2")})
    document["request"] = {"type": "relocate", "name": "a", "relocate_from": ["node2"], "top": 0}
    found = json_of("config", document=document)
    assert {row["name"]: (row["value"], row["origin"]) for row in found["settings"]}["top"] == (
        1, "built-in default",
    )  # fmt: skip
    assert json.dumps(found["warnings"]).count("request/top does not count") == 1
