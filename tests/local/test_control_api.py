"""The Control API of real SuperLinks: who gets in with which key, and what runs."""

import asyncio
import os
import re
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from unittest.mock import ANY

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from flower_operator.control import (
    AlreadyRegistered,
    ControlClient,
    InvalidKey,
    KeyRetired,
    Node,
    Run,
    UnknownNode,
    Unreachable,
)
from flower_operator.flower.commands import (
    ServerCertificate,
    beside,
    superexec_arguments,
    superlink_arguments,
    supernode_arguments,
)
from flower_operator.flower.dialects import IsolationMode, dialect_of
from flower_operator.flower.releases import Release, parse_release
from flower_operator.runs.connections import with_connection
from flower_operator.runs.environments import environment
from flower_operator.trust.decisions import RolledOut, Wanted
from flower_operator.trust.layout import Stored
from flower_operator.trust.steps import settle
from tests.harness.certificates import self_signed_certificate
from tests.harness.https_client import LOOPBACK
from tests.harness.ports import free_port
from tests.harness.processes import ProcessGroup, ServerProcess
from tests.local.machine import REPORT_APP

PAIRS = [("1.25.0", "1.42.0"), ("1.23.0", "1.29.0"), ("1.34.0", "1.37.0")]
"""Two at a time: they wait more than they work."""
KILLED = {"1.25.0", "1.42.0"}
"""Where a minute is spent on a SuperNode that was killed."""
STAYS = {"1.37.0"}
"""Where a SuperNode that is refused hangs, its probes answering, as on 1.35 and 1.36."""
REFUSALS = (
    "No SuperNode found with the given public key.",
    "could not be activated.",
    "Failed to activate SuperNode.",
)

pytestmark = pytest.mark.extended
"""Since 1.33 there is but the last, whether the key is unknown, unregistered or in use."""
PATIENCE = 120.0

PrivateKey = ec.EllipticCurvePrivateKey
T = TypeVar("T")


class Stage:
    """A release's SuperLink and SuperNodes, at ports of their own."""

    def __init__(self, release: str, group: ProcessGroup, *, secure: bool) -> None:
        found = parse_release(release)
        assert found
        self.release = release
        self.dialect = dialect_of(found)
        self.group = group
        self.folder = group.folder
        self.bin = environment(found) / "bin"
        self.ports: dict[str, str] = {}
        self.supernode_ports: dict[str, dict[str, str]] = defaultdict(dict)
        self.authority = self.folder / "ca.crt"
        certificate = (str(self.folder / file) for file in ("ca.crt", "tls.crt", "tls.key"))
        self.tls = ServerCertificate(*certificate) if secure else None
        self.secret = self.folder / "secret"
        self.secret.write_bytes(b"0123456789abcdef" * 2)
        now, wanted = datetime.now(UTC), Wanted((LOOPBACK,))
        stored, *_ = settle(Stored(), wanted, "test", "default", now, RolledOut())
        for file, text in stored.server.items():
            (self.folder / file).write_text(text)

    def start(
        self, name: str, command: str, arguments: list[str], ports: dict[str, str]
    ) -> ServerProcess:
        """Start a command of flwr's, at free ports in the place of its usual ones."""
        moved = [relocate(argument, ports) for argument in arguments]
        settings = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        setting = [f"{key}={value}" for key, value in settings.items()]
        return self.group.start(name, ["env", *setting, str(self.bin / command), *moved])

    def start_superlink(self, isolation: IsolationMode) -> ServerProcess:
        arguments = superlink_arguments(
            self.dialect,
            isolation,
            runtime_exposed=False,
            tls=self.tls,
            node_authentication=self.tls is not None,
        )
        database = ["--database", str(self.folder / "state.db")]
        return self.start("superlink", "flower-superlink", [*arguments, *database], self.ports)

    def start_supernode(self, name: str, key: PrivateKey | None) -> ServerProcess:
        """A SuperNode that has TLS for its ClientApps too, where that is possible."""
        arguments = supernode_arguments(
            self.dialect,
            "process",
            superlink=f"127.0.0.1:{self.ports[str(self.dialect.fleet.port)]}",
            root_certificates=str(self.authority) if self.tls else None,
            private_key=str(self.write_key(name, key)) if key else None,
            tls=self.tls,
            superexec_secret=str(self.secret),
        )
        return self.start(name, "flower-supernode", arguments, self.supernode_ports[name])

    def start_superexec(self, supernode: str) -> ServerProcess:
        arguments = superexec_arguments(
            self.dialect,
            "clientapp",
            beside(self.dialect.clientappio),
            root_certificates=str(self.authority) if self.tls else None,
            superexec_secret=str(self.secret),
        )
        ports = self.supernode_ports[supernode]
        return self.start(f"{supernode}-superexec", "flower-superexec", arguments, ports)

    def write_key(self, name: str, key: PrivateKey) -> Path:
        path = self.folder / f"{name}.key"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.OpenSSH,
                serialization.NoEncryption(),
            )
        )
        return path

    @property
    def control(self) -> str:
        return f"127.0.0.1:{self.ports[str(self.dialect.control.port)]}"

    def client(self) -> ControlClient:
        roots = self.authority.read_text() if self.tls else None
        return ControlClient(self.dialect, self.control, 20.0, roots)

    async def submit(self) -> None:
        """Start a run that waits until there is a SuperNode."""
        app, home = self.folder / "app", self.folder / "home"
        shutil.copytree(REPORT_APP, app)
        home.mkdir(exist_ok=True)
        connection = {"address": self.control, "root-certificates": str(self.authority)}
        if self.dialect.connection_file == "pyproject.toml":
            file, keys = app / "pyproject.toml", ("tool", "flwr", "federations", "keyed")
            file.write_text(with_connection(file.read_text(), keys, connection))
        else:
            text = with_connection("", ("superlink", "keyed"), connection)
            (home / "config.toml").write_text(text)
        run = await asyncio.create_subprocess_exec(
            *(self.bin / "flwr", "run", app, "keyed", "--run-config", "nodes=1"),
            env=os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await run.communicate()
        assert run.returncode == 0, output.decode()

    async def refuses(self, supernode: ServerProcess) -> None:
        """Wait until a SuperNode has said that it did not get in."""

        async def is_refused() -> bool:
            said = any(text in supernode.log.read_text() for text in REFUSALS)
            return said and (self.release in STAYS or supernode.process.poll() is not None)

        await self.until(is_refused, f"{supernode.name} is not refused")
        assert supernode.process.poll() == (None if self.release in STAYS else 1)

    async def until(self, ask: Callable[[], Awaitable[T | None]], wanted: str) -> T:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            try:
                if answer := await ask():
                    return answer
            except Unreachable:
                pass
            await asyncio.sleep(0.2)
        raise TimeoutError(f"{self.release}: {wanted}\n{self.group.log_tails()}")


def relocate(argument: str, ports: dict[str, str]) -> str:
    """An argument with free ports and the loopback in the place of what a pod has."""

    def free(match: re.Match[str]) -> str:
        return ports.setdefault(match[0], str(free_port()))

    return re.sub(r"\b(8000|909\d)$", free, argument.replace("0.0.0.0", "127.0.0.1"))


def public(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@asynccontextmanager
async def stage(
    release: str, *, secure: bool = True, isolation: IsolationMode = "process"
) -> AsyncIterator[tuple[Stage, ControlClient]]:
    with ProcessGroup() as group:
        made = Stage(release, group, secure=secure)
        made.start_superlink(isolation)
        client = made.client()
        try:
            await made.until(lambda: answers(client), "the SuperLink does not answer")
            yield made, client
        finally:
            await client.close()


async def answers(client: ControlClient) -> bool:
    return await client.nodes() == []


async def is_online(client: ControlClient, node_id: int) -> bool:
    return Node(node_id, "online", ANY, ANY) in await client.nodes()


async def the_run_is(client: ControlClient, status: str) -> Run | None:
    (run,) = await client.runs()
    return run if run.status == status else None


@pytest.mark.parametrize("releases", PAIRS, ids=" and ".join)
def test_only_who_has_a_registered_key_gets_in(releases: tuple[str, ...]) -> None:
    async def both() -> None:
        await asyncio.gather(*map(admit, releases), *map(kill, KILLED.intersection(releases)))

    asyncio.run(both())


async def admit(release: str) -> None:
    key, strangers_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    async with stage(release, isolation="subprocess") as (made, client):
        node_id = await client.register(public(key), "north")
        name = "north" if made.dialect.since >= Release(1, 38) else None
        assert await client.nodes() == [Node(node_id, "registered", public(key), name)]
        await trusts_no_other(made)
        await made.submit()
        run = await made.until(lambda: the_run_is(client, "running"), "the run does not start")
        assert run.active

        stranger = made.start_supernode("stranger", strangers_key)
        made.start_supernode("north", key)
        made.start_superexec("north")
        await made.until(lambda: is_online(client, node_id), "the SuperNode does not get in")
        twin = made.start_supernode("twin", key)
        await made.refuses(stranger)
        await made.refuses(twin)
        assert await client.nodes() == [Node(node_id, "online", public(key), name)]

        run = await made.until(lambda: the_run_is(client, "finished"), "the run does not end")
        assert (run.sub_status, run.active) == ("completed", False)
        await shut_out(made, client, node_id, key)


async def trusts_no_other(made: Stage) -> None:
    """Neither one of another name nor one that another has vouched for."""
    own, other = made.authority.read_text(), self_signed_certificate("other")[1].decode()
    for address, roots in (
        (made.control.replace("127.0.0.1", "localhost"), own),
        (made.control, other),
    ):
        client = ControlClient(made.dialect, address, 20.0, roots)
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await client.nodes()
        await client.close()


async def shut_out(made: Stage, client: ControlClient, node_id: int, key: PrivateKey) -> None:
    with pytest.raises(AlreadyRegistered) as caught:
        await client.register(public(key))
    assert caught.value.node_id == node_id
    with pytest.raises(InvalidKey):
        await client.register(b"no key")
    await client.unregister(node_id)
    with pytest.raises(KeyRetired):
        await client.register(public(key))
    with pytest.raises(UnknownNode):
        await client.unregister(node_id)
    await made.refuses(made.start_supernode("again", key))
    assert [node.status for node in await client.nodes()] == ["unregistered"]


async def kill(release: str) -> None:
    """A SuperNode that said no good-bye is taken to be there, and holds its key, for a minute."""
    key = ec.generate_private_key(ec.SECP256R1())
    async with stage(release) as (made, client):
        node_id = await client.register(public(key))
        node = made.start_supernode("south", key)
        await made.until(lambda: is_online(client, node_id), "the SuperNode does not get in")
        node.process.kill()
        await made.refuses(made.start_supernode("too-early", key))
        assert await client.connected() == 1

        async def is_missed() -> bool:
            return await client.connected() == 0

        await made.until(is_missed, "it is taken to be there for ever")
        made.start_supernode("later", key)
        await made.until(lambda: is_online(client, node_id), "it does not get in again")


@pytest.mark.parametrize("releases", PAIRS, ids=" and ".join)
def test_without_keys_everyone_gets_in_and_is_listed(releases: tuple[str, ...]) -> None:
    async def both() -> None:
        await asyncio.gather(*map(admit_everyone, releases))

    asyncio.run(both())


async def admit_everyone(release: str) -> None:
    async with stage(release, secure=False) as (made, client):
        made.start_supernode("north", None)

        async def someone() -> Node | None:
            return next((node for node in await client.nodes() if node.online), None)

        node = await made.until(someone, "the SuperNode does not get in")
        assert await client.connected() == 1
        # One of its own making. Others can be registered, for nothing.
        assert node.public_key
        assert await client.register(public(ec.generate_private_key(ec.SECP256R1())))
        assert await client.runs() == []
