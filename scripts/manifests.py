"""Write what is generated from the models and the examples, or check that it is up to date.

python -m scripts.manifests [--check]
"""

import sys
from pathlib import Path
from typing import Any

from flower_operator.api.crd import custom_resource_definition
from flower_operator.api.documents import read_documents
from flower_operator.api.manifest import parse
from flower_operator.api.types import Federation
from flower_operator.cli.controller import controller
from flower_operator.cli.output import crd_to_yaml, to_yaml
from flower_operator.fleet.static import render_fleet
from flower_operator.flower.dialects import DIALECTS
from flower_operator.render import Facts, render
from scripts.chart import GENERATED, chart_files
from scripts.reference import reference, with_options

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FLEET = EXAMPLES / "fleet/federation.yaml"
GOLDEN = ROOT / "tests/unit/golden"
CRD = ROOT / "dist/crd.yaml"
SECURE = "federation-secure.yaml"
REFERENCE = ROOT / "docs/reference/federation.md"
OPERATOR_REFERENCE = ROOT / "docs/reference/operator.md"


def examples() -> dict[str, list[Federation]]:
    """The Federations of every example, by file name."""
    return {
        path.name: [parse(document) for document in read_documents(path.read_text())]
        for path in sorted(EXAMPLES.glob("*.yaml"))
    }


def fleet_example() -> Federation:
    """The one whose pools run on other clusters, and so on no cluster by itself."""
    (document,) = read_documents(FLEET.read_text())
    return parse(document)


def generated() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    files = {CRD: crd_to_yaml(custom_resource_definition()), REFERENCE: reference()}
    page = OPERATOR_REFERENCE.read_text()
    files[OPERATOR_REFERENCE] = with_options(page, controller)
    files |= chart_files()
    for name, federations in examples().items():
        files[GOLDEN / "examples" / name] = _objects(federations, Facts())
        if name == SECURE:
            files[GOLDEN / "openshift" / name] = _objects(federations, Facts(openshift=True))
    files[GOLDEN / "fleet" / FLEET.name] = to_yaml(
        render_fleet(fleet_example(), Facts(), None).objects
    )
    for dialect in DIALECTS:
        files[GOLDEN / "dialects" / f"{dialect.since}.yaml"] = _dialect_golden(str(dialect.since))
    return files


def _objects(federations: list[Federation], facts: Facts) -> str:
    return to_yaml([each for one in federations for each in render(one, facts).objects])


def _dialect_golden(release: str) -> str:
    """The objects of one small Federation in every form that a dialect can take."""
    objects: list[dict[str, Any]] = []
    for isolation in ("process", "subprocess"):
        for insecure in (True, False):
            name = f"{isolation}-{'insecure' if insecure else 'tls'}"
            objects += render(small_federation(name, release, isolation, insecure), Facts()).objects
    kept = small_federation("kept", release, "process", False, persistence={"size": "1Gi"})
    objects += [each for each in render(kept, Facts()).objects if _is_superlinks(each)]
    return to_yaml(objects)


def _is_superlinks(each: dict[str, Any]) -> bool:
    """Whether it is of the SuperLink's side, which alone differs by what is kept."""
    component: str = each["metadata"]["labels"]["flower.flwr.ai/component"]
    return component == "superlink"


def small_federation(
    name: str, release: str, isolation: str, insecure: bool, **superlink_fields: Any
) -> Federation:
    superexec = f"flwr/superexec:{release}" if isolation == "process" else None
    images = {"superexecClientApp": superexec} if superexec else {}
    superlink = {"image": f"flwr/superlink:{release}", **superlink_fields}
    if superexec:
        superlink["superexecImage"] = superexec
    return parse(
        {
            "apiVersion": "flwr.exalsius.ai/v1",
            "kind": "Federation",
            "metadata": {"name": name},
            "spec": {
                "mode": "StatefulSet",
                "isolationMode": isolation,
                "insecure": insecure,
                "superlink": superlink,
                "supernodes": {
                    "image": f"flwr/supernode:{release}",
                    "pools": [
                        {
                            "name": "default",
                            "replicas": 2,
                            "images": images,
                            "nodeConfig": {"partition-id": "{index}", "name": "{pool}-{node}"},
                        }
                    ],
                },
            },
        }
    )


def main(check: bool) -> int:
    files = generated()
    present = {*GOLDEN.rglob("*.yaml"), *GENERATED.rglob("*.yaml")}
    stale = sorted(present - files.keys())
    stale += [p for p, text in files.items() if not p.exists() or p.read_text() != text]
    if check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: run make manifests")
        return 1 if stale else 0
    for path in present - files.keys():
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
