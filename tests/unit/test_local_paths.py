"""Names of a manifest that become paths of this machine: refused, or below the state folder."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.local.federations import LocalError
from flower_operator.local.files import (
    OutsideError,
    below,
    inside,
    make_folder,
    open_file,
    write_file,
)
from flower_operator.local.keys import take_keys
from flower_operator.local.processes import Machine, host_paths, processes
from flower_operator.local.state import allocation, state_folder
from flower_operator.local.trust import write_files
from flower_operator.local.validation import is_file_name, pod_problems
from flower_operator.render import Facts, render
from scripts.manifests import examples
from tests.unit.federations import document

STATE = Path("/home/me/state/fed")
HOSTILE = st.lists(
    st.sampled_from(["..", ".", "", "a", "data", "/", "//", "\\", "~", "\0", "\n", "$(A)", "$$"]),
    max_size=6,
).map("/".join)
HARMLESS = st.sampled_from(["data", "a.b", "fed-ca", "fed-supernode-default-keys"])
ANY = st.one_of(HOSTILE, st.text(max_size=12), HARMLESS)
OFTEN_HARMLESS = st.one_of(HARMLESS, HARMLESS, ANY)


def is_below(path: str | Path, folder: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(folder)


def problems_of(**pool: Any) -> list[str]:
    return [str(each) for each in pod_problems(parse(document(pool=pool)))]


@given(st.lists(ANY, max_size=4))
def test_names_lead_below_a_folder_or_nowhere(names: list[str]) -> None:
    try:
        path = below(STATE, *names)
    except OutsideError:
        return
    assert is_below(path, STATE)


SOURCES = st.one_of(
    st.just({"emptyDir": {}}),
    st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, OFTEN_HARMLESS),
    st.builds(lambda name: {"secret": {"secretName": name}}, OFTEN_HARMLESS),
    st.builds(lambda name: {"configMap": {"name": name}}, OFTEN_HARMLESS),
)


@given(
    name=OFTEN_HARMLESS,
    source=SOURCES,
    mount=st.one_of(
        st.just({}),
        st.just({"subPathExpr": "$(A)"}),
        st.dictionaries(st.sampled_from(["subPath", "subPathExpr"]), ANY, max_size=1),
    ),
    variable=ANY,
    argument=ANY,
)
def test_processes_write_below_the_state_folder_whatever_was_validated(
    name: str, source: Any, mount: dict[str, str], variable: str, argument: str
) -> None:
    pool = {
        "volumes": [{"name": name, **source}],
        "volumeMounts": [{"name": name, "mountPath": "/data", **mount}],
        "env": [{"name": "A", "value": variable}],
        "extraArgs": ["--file", f"/data/{argument}"],
    }
    machine = Machine(
        folder=STATE,
        nodes=("laptop",),
        port_of=lambda pod, port: port,
        environment_of=lambda release: Path("/env"),
        versions={"fed-ca": "one"},
        keys={"fed-supernode-default-keys": {"0": "a", "1": "b"}},
    )
    try:
        found = processes(render(parse(document(pool=pool)), Facts()), machine)
    except (InvalidFederation, OutsideError):
        return
    for process in found:
        for path in (*process.folders, *process.files):
            assert is_below(path, STATE), path
    for process in found[1:]:
        assert is_below(process.command[process.command.index("--file") + 1], STATE)


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        (
            {"name": "Data", "emptyDir": {}},
            ".name: must be a DNS label: lower-case letters, digits and '-', 63 characters at "
            "most, not 'Data'",
        ),
        (
            {"name": "a", "secret": {"secretName": "../x"}},
            ".secret.secretName: must be a DNS name: lower-case letters, digits, '-' and '.', 253 "
            "characters at most, not '../x'",
        ),
        (
            {"name": "a", "configMap": {"name": ".."}},
            ".configMap.name: must be a DNS name: lower-case letters, digits, '-' and '.', 253 "
            "characters at most, not '..'",
        ),
        (
            {"name": "a", "emptyDir": {}, "secret": {"secretName": "x"}},
            ": has several sources: emptyDir, secret; keep one",
        ),
        (
            {"name": "a", "hostPath": {"path": "data"}},
            ".hostPath.path: must be an absolute path without '..', not 'data'",
        ),
        (
            {"name": "a", "secret": {"secretName": "x", "items": [{"key": "k", "path": "../k"}]}},
            ".secret.items[0].path: must be a relative path without '..', not '../k'",
        ),
        (
            {
                "name": "a",
                "projected": {
                    "sources": [{"configMap": {"name": "x", "items": [{"key": "k", "path": "/k"}]}}]
                },
            },
            ".projected.sources[0].configMap.items[0].path: must be a relative path without "
            "'..', not '/k'",
        ),
    ],
)
def test_a_volume_that_no_api_server_takes(volume: dict[str, Any], problem: str) -> None:
    assert problems_of(volumes=[volume]) == [f"spec.supernodes.pools[0].volumes[0]{problem}"]


def test_the_same_in_a_pod_template_and_for_the_superlink() -> None:
    volume = {"name": "a", "persistentVolumeClaim": {"claimName": "../.."}}
    manifest = document(superlink={"podTemplate": {"spec": {"volumes": [volume]}}})
    (problem,) = pod_problems(parse(manifest))
    assert problem.path == (
        "spec.superlink.podTemplate.spec.volumes[0].persistentVolumeClaim.claimName"
    )


def test_volumes_of_the_examples_are_sound() -> None:
    for federations in examples().values():
        for federation in federations:
            assert list(pod_problems(federation)) == []


@given(ANY)
def test_a_key_of_a_secret_is_one_step(key: str) -> None:
    if is_file_name(key):
        assert Path(os.path.normpath(STATE / key)).parent == STATE


@pytest.mark.parametrize(
    "key", ["/../../.bashrc", "..", "..data", ".", "a/b", "", "a\n", "a" * 254]
)
def test_a_key_that_is_no_name_of_a_file(tmp_path: Path, key: str) -> None:
    name = "fed-supernode-default-keys"
    with pytest.raises(LocalError) as refused:
        take_keys(tmp_path / "fed", "fed", {"default": 1}, {name: {key: "owned"}})
    assert str(refused.value) == (
        f"Secret {name}: data: {key!r} is no name of a file; write letters, digits, '-', '_' and "
        "'.', 253 at most"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_of_the_host_is_named_and_not_made() -> None:
    volume = {"name": "data", "hostPath": {"path": "/absent", "type": "DirectoryOrCreate"}}
    mounts = [{"name": "data", "mountPath": "/data", "subPath": "a"}]
    federation = parse(document(pool={"volumes": [volume], "volumeMounts": mounts}))
    plan = render(federation, Facts())
    assert list(host_paths(plan)) == [("data", "/absent")]
    machine = Machine(STATE, ("me",), lambda pod, port: port, lambda release: Path("/env"))
    folders = {folder for each in processes(plan, machine) for folder in each.folders}
    assert not any(folder.startswith("/absent") for folder in folders)


def test_symbolic_links_that_lead_elsewhere_are_not_followed(tmp_path: Path) -> None:
    root, home = tmp_path / "fed", tmp_path / "home"
    (root / "volumes").mkdir(parents=True)
    home.mkdir()
    (root / "volumes/data").symlink_to(home)
    (root / "trust").symlink_to(home)
    (home / "kept").touch()
    for write in (
        lambda: make_folder(root, root / "volumes/data/made"),
        lambda: write_file(root, root / "volumes/data/made", "x"),
        lambda: open_file(root, root / "volumes/data/made", "w"),
        lambda: write_files(root, root / "trust", {"made": "x"}),
    ):
        with pytest.raises(OutsideError, match=r"leads out of .*/fed, to .*/home"):
            write()
    assert list(home.iterdir()) == [home / "kept"]


def test_a_link_in_the_place_of_a_file_is_replaced_or_refused(tmp_path: Path) -> None:
    root, precious = tmp_path / "fed", tmp_path / "precious"
    root.mkdir()
    precious.write_text("precious")
    (root / "file").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        open_file(root, root / "file", "w")
    write_file(root, root / "file", "mine")
    assert (precious.read_text(), (root / "file").read_text()) == ("precious", "mine")


def test_a_state_folder_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    root = tmp_path / "fed"
    root.symlink_to(tmp_path / "disk")
    write_file(root, root / "a/b", "x")
    assert inside(root, root / "a/b") == tmp_path / "disk/a/b"


def test_files_are_private_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("what is made private later was readable before")

    monkeypatch.setattr(os, "chmod", refused)
    monkeypatch.setattr(os, "fchmod", refused)
    root = tmp_path / "state/fed"
    before = os.umask(0)
    try:
        write_file(root, root / "trust/key", "x")
        with open_file(root, root / "logs/log", "ab") as log:
            log.write(b"x")
        make_folder(root, root / "work/pod")
    finally:
        os.umask(before)
    modes = {oct(path.stat().st_mode) for path in (tmp_path / "state").rglob("*")}
    assert modes == {"0o40700", "0o100600"}


@pytest.mark.parametrize(
    "name",
    [
        *("PYTHONWARNINGS", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONBREAKPOINT"),
        *("PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONINSPECT", "PYTHON_PRESITE", "BROWSER"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PATH"),
        *("BASH_ENV", "BASH_FUNC_ls%%", "ENV", "PS4", "EDITOR", "PAGER", "OPENSSL_CONF"),
        *("GIT_SSH_COMMAND", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "GCONV_PATH"),
    ],
)
def test_a_variable_that_runs_other_code_is_refused_wherever_it_stands(name: str) -> None:
    variables = [{"name": "MINE", "value": "x"}, {"name": name, "value": "x"}]

    def template(container: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": container, "env": variables}]}}

    manifest = document(
        superlink={"env": variables, "podTemplate": template("superlink")},
        supernodes={"env": variables},
        pool={"env": variables, "podTemplate": template("supernode")},
    )
    words = (
        f"{name} can make a process run other code than Flower's, so `up` does not take it from a "
        "manifest; remove it"
    )
    fields = (
        "spec.supernodes",
        "spec.superlink",
        "spec.superlink.podTemplate.spec.containers[0]",
        "spec.supernodes.pools[0]",
        "spec.supernodes.pools[0].podTemplate.spec.containers[0]",
    )
    found = [str(each) for each in pod_problems(parse(manifest))]
    assert found == [f"{field}.env[1]: {words}" for field in fields]
    # What has no process here may have what it likes.
    assert problems_of(podTemplate=template("helper")) == []


@pytest.mark.parametrize(
    "name",
    ["PYTHONUNBUFFERED", "PYTHONHASHSEED", "DATASET", "HOME", "HTTPS_PROXY", "OMP_NUM_THREADS"],
)
def test_other_variables_are_the_manifests(name: str) -> None:
    assert problems_of(env=[{"name": name, "value": "1"}]) == []


def test_a_state_folder_that_others_could_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state_folder().mkdir(mode=0o755)
    with allocation():
        assert oct(state_folder().stat().st_mode) == "0o40700"


def test_a_path_that_a_variable_or_an_argument_makes_is_told_with_its_process() -> None:
    machine = Machine(STATE, ("me",), lambda pod, port: port, lambda release: Path("/env"))
    pool: dict[str, Any] = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    for changes in (
        {"extraArgs": ["--file=/data/../../x"]},
        {
            "volumeMounts": [{"name": "data", "mountPath": "/data", "subPathExpr": "$(A)"}],
            "env": [{"name": "A", "value": "../../x"}],
        },
    ):
        plan = render(parse(document(pool={**pool, **changes})), Facts())
        with pytest.raises(OutsideError) as refused:
            processes(plan, machine)
        assert str(refused.value) == (
            "default-0/supernode: '../../x' leads out of /home/me/state/fed/volumes/default-0/data"
            "; write a path without '..'"
        )
