"""What each release's own parser makes of the node config that is rendered."""

import json
from pathlib import Path

import pytest

from flower_operator.flower import node_config
from flower_operator.flower.releases import Release
from tests.harness.releases import QUICK_RELEASES, RELEASES, extended_unless
from tests.local.test_command_lines import ask

VALUES: dict[str, object] = {
    "cifar10": "cifar10",
    "32": 32,
    "-7": -7,
    "9223372036854775807": 9223372036854775807,
    "0.01": 0.01,
    "1e-3": 0.001,
    "true": True,
    "false": False,
    "True": "True",
    "007": "007",
    "": "",
    " ": " ",
    "a b=c": "a b=c",
    "[1, 2]": "[1, 2]",
    "2026-01-01": "2026-01-01",
    "$(touch /tmp/x)": "$(touch /tmp/x)",
    "it's": "it's",
    'say "hi"': 'say "hi"',
    "'\"": "'\"",
    "C:\\new": "C:\\new",
    "\\": "\\",
    "two\nlines\ttab": "two\nlines\ttab",
    "file.toml": "file.toml",
    "日本語 é 🌼": "日本語 é 🌼",
    "#no comment": "#no comment",
}
CONFIG = {f"key-{number}": text for number, text in enumerate(VALUES)}
WANTED = dict(zip(CONFIG, VALUES.values(), strict=True))


@pytest.mark.parametrize("release", extended_unless(QUICK_RELEASES, RELEASES), ids=str)
def test_a_client_app_reads_what_the_manifest_says(release: Release, tmp_path: Path) -> None:
    pairs = node_config.items(CONFIG, {}, {})
    file = tmp_path / "node.toml"
    file.write_text("\n".join(pairs) + "\n")
    answers = ask(release, [["node-config", [" ".join(pairs)]], ["node-config", [str(file)]]])
    for answer in answers:
        assert answer == {"parsed": WANTED}
        types = {key: type(value) for key, value in answer["parsed"].items()}
        assert types == {key: type(value) for key, value in WANTED.items()}


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]], ids=str)
def test_the_keys_refused_here_are_those_flwr_refuses_or_loses(release: Release) -> None:
    keys = ["a b", "a=b", "é", "a.", ".a", "[a]", "a\n"]
    assert [key for key, _ in node_config.unfit_keys(keys)] == sorted(keys)
    answers = ask(release, [["node-config", [f"{key}=1"]] for key in keys])
    assert all(a.get("parsed") != {k: 1} for k, a in zip(keys, answers, strict=True)), json.dumps(
        answers
    )
