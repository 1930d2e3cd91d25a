"""A terminal is not commanded by what others wrote: a cluster, a SuperLink, an app, a process."""

import io
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from flower_operator.cli import main, terminal
from flower_operator.cli.plugin import plugin
from flower_operator.cli.terminal import ContentWriter, one_line, printable
from flower_operator.local.process import Process
from flower_operator.local.state import Desired, ProcessStatus, Record, Status
from scripts.manifests import ROOT
from tests.unit.test_examination import LINK, WELL, federation, pod
from tests.unit.test_troubles import BACK_OFF, terminated, with_container

TITLE, RED, BACKWARDS = "\x1b]0;owned\x07", "\x9b31m", "\u202e"
EVIL = f"{TITLE}{RED}{BACKWARDS}evil"
SHOWN = r"\x1b]0;owned\x07\x9b31m\u202eevil"
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def lying_federation() -> Any:
    """As a cluster may send it: no field holds what its schema asks for."""
    said = f"pod lab-supernode-north-0: container supernode ended: {EVIL}"
    condition = {"type": f"Ready{EVIL}", "status": "False", "reason": EVIL, "message": said}
    clusters = [{"name": EVIL, "addon": EVIL, "lastSeen": EVIL, "partitions": EVIL}]
    pool = {"name": EVIL, "kind": EVIL, "release": EVIL, "conditions": [condition]}
    status = {
        "conditions": [condition, {**condition, "type": "Degraded", "status": "True"}],
        "pools": [{**pool, "clusters": clusters}],
        "supernodes": EVIL,
        "release": "1.41.0",
        "endpoints": {"superlinkService": f"lab:9093{EVIL}"},
    }
    found = federation({**WELL, **status}, mode=EVIL, isolationMode=EVIL, insecure=False)
    found.metadata.creation_timestamp = datetime(2027, 1, 15, 8, tzinfo=UTC)
    return found


def lying_pods() -> list[Any]:
    words = with_container(BACK_OFF, terminated(1, message=f"{EVIL}\nlab: ready"))
    return [LINK, pod(f"lab-supernode-north-0{EVIL}", status=words)]


class LyingServer(BaseHTTPRequestHandler):
    """An API server whose every word is meant for the reader's terminal."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/version":
            self._answer(200, {"gitVersion": f"v1.30.0{EVIL}"})
        elif path.endswith("/federations"):
            self._answer(200, {"items": [lying_federation()]})
        elif path.endswith(("/federations/lab", "/federations/other-name")):
            self._answer(200, lying_federation())
        elif path.endswith("/federations/not-json"):
            self._write(200, b'{"metadata": ')
        elif path.endswith("/federations/no-date"):
            self._answer(200, {"metadata": {"name": "no-date", "creationTimestamp": ""}})
        elif path.endswith("/pods"):
            self._answer(200, {"items": lying_pods()})
        elif path.endswith("/log"):
            self._write(200, f"2027-01-15T08:00:00.1Z {EVIL}\n".encode())
        elif path.endswith("/configmaps/lab-ca"):
            self._answer(200, {"data": {"ca.crt": f"{EVIL}\n"}})
        else:
            self._refuse(403)

    def do_POST(self) -> None:
        self._refuse(403)

    do_DELETE = do_PATCH = do_POST  # noqa: N815

    def _refuse(self, code: int) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = {"kind": "Status", "code": code, "reason": "Forbidden", "message": EVIL}
        self._answer(code, status)

    def _answer(self, code: int, content: Any) -> None:
        self._write(code, msgspec.json.encode(content))

    def _write(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def lying_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), LyingServer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    kubeconfig = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "me", "user": {"token": "mine"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def invoke(command: Any, *arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


ON_A_CLUSTER = [
    ("list",),
    ("status", "lab"),
    ("logs", "lab"),
    ("logs", "lab", "absent"),
    ("restart", "lab"),
    ("restart", "lab", "north"),
    ("config", "lab"),
    ("ca", "lab"),
    ("join", "lab", "--for", "rome"),
    ("suspend", "lab"),
    ("run", str(ROOT / "examples/apps/digits"), "--federation", "lab"),
    ("doctor",),
    ("status", "other"),
]


@pytest.mark.usefixtures("lying_cluster")
@pytest.mark.parametrize("arguments", ON_A_CLUSTER, ids=" ".join)
def test_no_command_obeys_a_cluster(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    result = invoke(plugin, *arguments, "-n", "team")
    assert COMMANDS.findall(result.output) == []
    assert SHOWN in result.output


@pytest.mark.usefixtures("lying_cluster")
@pytest.mark.parametrize("name", ["other-name", "not-json", "no-date"])
def test_an_answer_that_no_api_server_gives_is_an_error_of_one_line(name: str) -> None:
    result = invoke(plugin, "config", name, "-n", "team")
    assert result.exit_code == 1
    assert result.output.startswith("error: the ")
    assert result.output.count("\n") == 1


@pytest.mark.usefixtures("lying_cluster")
def test_no_word_of_a_container_looks_like_a_line_of_ours() -> None:
    assert "\nlab: ready" not in invoke(plugin, "status", "lab", "-n", "team").output


@pytest.mark.usefixtures("lying_cluster")
def test_another_program_gets_logs_as_they_are_under_headings_that_are_not() -> None:
    heading, _, line = (
        invoke(plugin, "logs", "lab", "-n", "team").stdout.splitlines()[-1].partition(" | ")
    )
    assert (COMMANDS.search(heading), line) == (None, EVIL)


@pytest.fixture
def lying_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Federation of this machine whose apps end with such words."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    record = Record(tmp_path / "flower-operator/fed")
    name = "north-0/supernode"
    process = Process("north-0", "supernode", ["x"], {})
    record.write_desired(Desired("fed", EVIL, EVIL, "", 1, [process], {}, "", external=False))
    found = [ProcessStatus(name, "failing", reason=f"{EVIL}\nfed: ready")]
    record.write_status(Status(message=EVIL, processes=found))
    record.logs.mkdir()
    record.log_of(name).write_text(f"{EVIL}\n\x1b[92mINFO\x1b[0m\ttext\r\n")
    with record.hold():
        yield


@pytest.mark.usefixtures("lying_processes")
@pytest.mark.parametrize("command", [("list",), ("status", "fed"), ("logs", "fed")], ids=" ".join)
def test_no_command_obeys_a_process(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    output = invoke(main, *command).output
    assert COMMANDS.findall(output.replace("\x1b[92m", "").replace("\x1b[0m", "")) == []
    assert SHOWN in output
    assert "\nfed: ready" not in output


@pytest.mark.usefixtures("lying_processes")
def test_colours_of_flowers_logs_are_shown_on_a_terminal_and_end_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = invoke(main, "logs", "fed").stdout
    assert raw.endswith("| INFO\ttext\n")
    assert f"| {EVIL}\n" in raw
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    shown = invoke(main, "logs", "fed").stdout
    assert shown.endswith("| \x1b[92mINFO\x1b[0m\ttext\n\x1b[0m")


def test_a_file_name_of_ones_own_is_no_command_either(tmp_path: Path) -> None:
    result = invoke(main, "validate", str(tmp_path / EVIL))
    assert COMMANDS.findall(result.output) == []
    assert SHOWN in result.output


@given(st.text())
def test_what_is_printed_holds_no_command(text: str) -> None:
    assert COMMANDS.findall(printable(text)) == []
    assert COMMANDS.findall(one_line(text)) == []
    assert not set("\n\r\t") & set(one_line(text))
    printable(text).encode()  # a surrogate cannot be printed at all
    assert printable(printable(text)) == printable(text)


def test_ordinary_text_stays() -> None:
    text = 'Grüße, 日本語, "naïve" 👩‍🔬 a\\x1b\n\tx'
    assert printable(text) == text
    assert one_line("a \n\t b\r\nc") == "a b c"


@given(st.lists(st.sampled_from([*EVIL, "\x1b[31m", "\r\n", "\r", "é", "x"]), max_size=20))
def test_a_stream_that_is_cut_anywhere_reads_the_same(pieces: list[str]) -> None:
    text = "".join(pieces).encode()

    def shown(chunks: list[bytes]) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(terminal, "is_terminal", lambda: True)
            out = io.StringIO()
            patch.setattr("sys.stdout", out)
            writer = ContentWriter()
            for chunk in [*chunks, b"end"]:
                writer.write(chunk)
        return out.getvalue().replace("\x1b[0m", "")

    whole, bytewise = shown([text]), shown([text[i : i + 1] for i in range(len(text))])
    assert whole == bytewise
    assert COMMANDS.findall(whole.replace("\x1b[31m", "")) == []


def test_commands_print_in_one_module_only() -> None:
    for path in (ROOT / "src/flower_operator/cli").glob("*.py"):
        if path.name not in ("terminal.py", "live.py"):
            assert not re.search(
                r"click\.(echo|secho)|print\(|stdout\.(write|buffer)", path.read_text()
            ), path
