"""The relays between the SuperLink's pod and that of ServerApps, as pods run them."""

import asyncio
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import pytest

from flower_operator import relay
from flower_operator.flower.commands import RELAY_PORT
from flower_operator.local.ports import is_free
from flower_operator.render import relay as rendered
from flower_operator.render.secrets import FOLDER
from tests.harness.certificates import issued_certificate
from tests.harness.ports import free_port
from tests.harness.waiting import wait_for

MEGABYTE = 1 << 20
SECRET = "0123456789abcdef" * 4


class Way:
    """An API on loopback, and the relays before it and before who asks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.api, self.accepting, self.connecting = free_port(), free_port(), free_port()
        self.listener: socket.socket | None = None
        self.write(issued_certificate("localhost"))
        self._relays: dict[int, subprocess.Popen[bytes]] = {}

    def write(self, certificate: dict[str, str], secret: str = SECRET) -> None:
        """In the folders that stand for what pods mount."""
        files = {"tls": ("tls.crt", "tls.key"), "ca": ("ca.crt",)}
        for name, own in files.items():
            (self.folder / name).mkdir(exist_ok=True)
            for file in own:
                (self.folder / name / file).write_text(certificate[file])
        (self.folder / "superexec").mkdir(exist_ok=True)
        (self.folder / "superexec/secret").write_text(secret)

    def serve(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.api))
        self.listener.settimeout(30)

    def start_accepting(self) -> subprocess.Popen[bytes]:
        container = rendered.accepting("", f"127.0.0.1:{self.api}")
        return self._start(container, self.accepting, f"0.0.0.0:{RELAY_PORT}")

    def start_connecting(self, host: str = "localhost") -> subprocess.Popen[bytes]:
        listen = f"127.0.0.1:{self.connecting}"
        container = rendered.connecting("", listen, f"{host}:{self.accepting}")
        return self._start(container, self.connecting, listen)

    def _start(self, container: dict[str, Any], port: int, listen: str) -> subprocess.Popen[bytes]:
        command = [*container["command"], *container["args"]]
        here = {"python": sys.executable, listen: f"127.0.0.1:{port}"}
        command = [here.get(each, each.replace(FOLDER, str(self.folder))) for each in command]
        self.end(port)
        with self.log.open("ab") as log:
            process = self._relays[port] = subprocess.Popen(command, stderr=log)
        wait_for(lambda: not is_free(port), lambda: f"no relay: {self.log.read_text()}", timeout=30)
        return process

    def end(self, port: int) -> None:
        if process := self._relays.pop(port, None):
            process.kill()
            process.wait()

    def ask(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.connecting), 30)

    def connected(self) -> tuple[socket.socket, socket.socket]:
        """Who asks, and the API's end of that."""
        assert self.listener
        near = self.ask()
        far = self.listener.accept()[0]
        far.settimeout(30)
        return near, far

    def is_untouched(self) -> bool:
        """Whether nobody has come to the API."""
        assert self.listener
        return not select.select([self.listener], [], [], 0)[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.listener:
            self.listener.close()
        for port in list(self._relays):
            self.end(port)


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    with Way(tmp_path) as way:
        way.serve()
        yield way


@pytest.fixture
def relays(way: Way) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    return way.start_accepting(), way.start_connecting()


def read(source: socket.socket, size: int = sys.maxsize) -> bytes:
    """So much, or all until the end."""
    data = bytearray()
    while len(data) < size and (chunk := source.recv(min(MEGABYTE, size - len(data)))):
        data += chunk
    return bytes(data)


@pytest.mark.usefixtures("relays")
def test_everything_arrives_before_the_end(way: Way) -> None:
    content = bytes(range(256)) * (64 * MEGABYTE // 256)
    near, far = way.connected()
    for source, target in ((near, far), (far, near)):
        sending = threading.Thread(target=source.sendall, args=(content,))
        sending.start()
        assert read(target, len(content)) == content
        sending.join()
    far.sendall(b"last words")
    far.close()
    assert read(near) == b"last words"
    near.close()
    near, far = way.connected()
    near.close()
    assert read(far) == b""
    far.close()


def test_no_more_is_taken_than_is_passed_on() -> None:
    written: list[bytes] = []

    class Slow:
        """Takes the first of it, and then nothing for ever."""

        write = written.append

        async def drain(self) -> None:
            await asyncio.Event().wait()

    async def pass_on() -> None:
        source, target = asyncio.StreamReader(), Slow()
        source.feed_data(bytes(MEGABYTE))
        source.feed_eof()
        with suppress(TimeoutError):
            await asyncio.wait_for(relay.pass_on(source, cast("Any", target)), 0.01)

    asyncio.run(pass_on())
    assert len(written) == 1


def test_nobody_gets_in_without_the_secret(way: Way) -> None:
    way.start_accepting()
    context = ssl.create_default_context(cafile=str(way.folder / "ca/ca.crt"))

    def answer(first: str) -> bytes:
        plain = socket.create_connection(("localhost", way.accepting), 30)
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            secured.sendall(first.encode())
            return secured.recv(1)

    assert answer(SECRET[:-1] + "0" + "GET /") == b""
    (way.folder / "superexec/secret").write_text("")
    assert answer("GET /") == b""
    assert way.is_untouched()
    assert way.log.read_text().count("a peer does not know the secret") == 2


def test_one_that_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "PATIENCE", 0.01)
    (tmp_path / "secret").write_text(SECRET)

    async def accept() -> None:
        near: Any = (asyncio.StreamReader(), None)
        await relay.accept(near, "127.0.0.1:1", str(tmp_path / "secret"))

    with pytest.raises(TimeoutError):
        asyncio.run(accept())


def test_the_other_end_has_to_be_who_it_should_be(way: Way) -> None:
    way.start_accepting()
    way.start_connecting()
    (way.folder / "ca/ca.crt").write_text(issued_certificate("localhost")["ca.crt"])
    assert read(way.ask()) == b""
    way.write(issued_certificate("elsewhere"))
    way.start_accepting()
    assert read(way.ask()) == b""
    assert way.is_untouched()


@pytest.mark.usefixtures("relays")
def test_a_new_ca_and_a_new_secret_take_no_restart_of_who_asks(way: Way) -> None:
    way.write(issued_certificate("localhost"), SECRET[::-1])
    way.start_accepting()
    near, far = way.connected()
    near.close()
    far.close()


def test_who_asks_is_told_that_the_api_is_away_and_finds_it_again(way: Way) -> None:
    assert way.listener
    way.listener.close()
    way.start_accepting()
    way.start_connecting()
    assert read(way.ask()) == b""
    way.serve()
    near, far = way.connected()
    near.sendall(b"back")
    assert read(far, 4) == b"back"
    near.close()
    far.close()


def test_who_asks_has_its_say_at_the_end_and_is_cut_off_from_an_api_that_ends(
    way: Way, relays: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]
) -> None:
    accepting, connecting = relays
    near, far = way.connected()
    connecting.send_signal(signal.SIGTERM)
    wait_for(partial(is_free, way.connecting), "it still takes connections", timeout=30)
    near.sendall(b"last words")
    assert read(far, 10) == b"last words"
    far.sendall(b"answer")
    assert read(near, 6) == b"answer"
    accepting.send_signal(signal.SIGTERM)
    assert read(near) == b""
    assert read(far) == b""
    near.close()
    far.close()
    assert [process.wait(30) for process in relays] == [0, 0]
