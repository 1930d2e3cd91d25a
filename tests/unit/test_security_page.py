"""docs/security.md names every permission that the chart gives the operator, and no other."""

import re

import pytest
import yaml

from scripts.admission import NAME as POLICY
from scripts.admission import REFERENCES
from scripts.chart import GENERATED, ROLES
from scripts.manifests import ROOT

PAGE = (ROOT / "docs/security.md").read_text()
HEAD = "| API group | resources | verbs | why |\n|---|---|---|---|\n"
# The rules of each table, in the order of the page. SuperExecs have the remaining role.
TABLES = ("manager", "task-executor-binding", "addon", "metrics-auth", "leader-election")

Permission = tuple[str, str, str, str]
"""Group, resource, name or nothing, and verb."""


def tables() -> list[list[list[str]]]:
    """The cells of every row of every table of permissions."""
    found = [text.partition("\n\n")[0] for text in PAGE.split(HEAD)[1:]]
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        for table in found
    ]


def written(table: list[list[str]]) -> set[Permission]:
    found = set()
    for group, resources, verbs, _ in table:
        for resource in resources.split(", "):
            match = re.fullmatch(r"(\S+)(?: `(\S+)`)?", resource)
            assert match, resource
            for verb in verbs.split(", "):
                found.add((group.replace("core", ""), match[1], match[2] or "", verb))
    return found


def granted(name: str) -> set[Permission]:
    rules = yaml.safe_load((GENERATED / f"{name}.yaml").read_text())["rules"]
    return {
        (group, resource, only, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for only in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def test_every_role_has_a_table() -> None:
    assert {*TABLES, "task-executor"} == ROLES.keys()
    assert len(tables()) == len(TABLES)


@pytest.mark.parametrize(("number", "name"), list(enumerate(TABLES)))
def test_a_table_has_the_permissions_of_the_role_and_no_others(number: int, name: str) -> None:
    table = tables()[number]
    assert written(table) == granted(name)
    assert all(why for *_, why in table), "every permission has a reason"


def test_the_policy_is_as_described() -> None:
    assert f"`{POLICY}`" in PAGE
    assert f"more than {REFERENCES} different Secrets" in PAGE
