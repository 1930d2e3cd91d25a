"""Which Flower release each part of a Federation runs, and whether they can talk."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..api.problems import InvalidFederation, Problem
from ..api.types import Federation
from ..flower.compatibility import (
    clientapp_mismatch,
    executor_mismatch,
    serverapp_mismatch,
    supernode_mismatch,
)
from ..flower.dialects import NEWEST, OLDEST, Dialect, dialect_of
from ..flower.releases import Release, parse_release, release_of_image

Assumed = tuple[tuple[str, str], ...]
"""Containers whose release is a guess, each with a sentence that says so."""


@dataclass(frozen=True)
class PoolReleases:
    supernode: Release
    clientapp: Release
    assumed: Assumed = ()

    @property
    def supernode_dialect(self) -> Dialect:
        return dialect_of(self.supernode)

    @property
    def clientapp_dialect(self) -> Dialect:
        return dialect_of(self.clientapp)


@dataclass(frozen=True)
class Releases:
    """The release of every component, and what a user should know about how it was found."""

    superlink: Release
    """Of one that runs elsewhere, what is assumed: that of the SuperNodes."""
    serverapp: Release
    pools: tuple[PoolReleases, ...]
    notices: tuple[str, ...]
    assumed: Assumed = ()
    """Of the SuperLink and the SuperExec for ServerApps."""

    @property
    def superlink_dialect(self) -> Dialect:
        return dialect_of(self.superlink)

    @property
    def serverapp_dialect(self) -> Dialect:
        return dialect_of(self.serverapp)


def find_releases(federation: Federation) -> Releases:
    """The release of every component: spec.version, else its image's tag, else its peers'."""
    finder = _Finder(federation)
    spec = federation.spec
    superlink = finder.usual()
    if spec.superlink.image:
        superlink = finder.find("spec.superlink.image", spec.superlink.image, superlink)
    serverapp = finder.find_superexec(
        "spec.superlink.superexecImage", spec.superlink.superexec_image, superlink
    )
    pools = []
    for position, pool in enumerate(spec.supernodes.pools):
        images = f"spec.supernodes.pools[{position}].images"
        path, image = "spec.supernodes.image", spec.supernodes.image
        if pool.images.supernode:
            path, image = f"{images}.supernode", pool.images.supernode
        supernode = finder.find(path, image, superlink)
        clientapp = finder.find_superexec(
            f"{images}.superexecClientApp", pool.images.superexec_client_app, supernode
        )
        if spec.superlink.image:
            mismatch = supernode_mismatch(superlink, supernode)
            finder.compare(f"spec.supernodes.pools[{position}]", mismatch)
        finder.compare(f"{images}.superexecClientApp", clientapp_mismatch(supernode, clientapp))
        if pool.executor == "kubernetes":
            path = f"spec.supernodes.pools[{position}].executor"
            finder.compare(path, executor_mismatch(clientapp, secure=False))
        containers = {"supernode": path, "superexec-clientapp": f"{images}.superexecClientApp"}
        pools.append(PoolReleases(supernode, clientapp, finder.assumptions(containers)))
    finder.compare("spec.superlink.superexecImage", serverapp_mismatch(superlink, serverapp))
    if spec.superlink.executor == "kubernetes":
        mismatch = executor_mismatch(serverapp, secure=not spec.insecure)
        finder.compare("spec.superlink.executor", mismatch)
    if finder.problems:
        raise InvalidFederation(finder.problems)
    containers = {
        "superlink": "spec.superlink.image",
        "superexec-serverapp": "spec.superlink.superexecImage",
    }
    assumed = finder.assumptions(containers)
    return Releases(superlink, serverapp, tuple(pools), tuple(finder.notices), assumed)


class _Finder:
    """Gathers problems and notices, each once, while the releases are looked up."""

    def __init__(self, federation: Federation) -> None:
        self.spec = federation.spec
        self.problems: dict[Problem, None] = {}
        self.notices: dict[str, None] = {}
        self.assumed: dict[str, str] = {}
        """By path of an image, what was assumed of it."""
        self.version = self._version()

    def usual(self) -> Release:
        """The release of a component whose image does not name one."""
        if self.version:
            return self.version
        images = [self.spec.superlink.image or "", self.spec.supernodes.image]
        images += [pool.images.supernode or "" for pool in self.spec.supernodes.pools]
        found = [release for image in images if (release := release_of_image(image))]
        return found[0] if found else NEWEST

    def find_superexec(self, path: str, image: str | None, owner: Release) -> Release:
        """A SuperExec's image is the app's own; untold, its release is that of its owner."""
        if image and release_of_image(image):
            return self.find(path, image, owner)
        if image and not self.version:
            self._assume(path, image, owner)
        return owner

    def find(self, path: str, image: str, usual: Release) -> Release:
        tagged = release_of_image(image)
        if self.version:
            if tagged and tagged.line != self.version.line:
                self._notice(
                    f"{path}: {image} looks like Flower {tagged}, "
                    f"but spec.version says {self.version}"
                )
            return self.version
        if tagged is None:
            self._notice(self._assume(path, image, usual))
            return usual
        return self._checked(path, tagged)

    def assumptions(self, containers: Mapping[str, str]) -> Assumed:
        """`containers`: the path of each one's image."""
        return tuple(
            (container, self.assumed[path])
            for container, path in containers.items()
            if path in self.assumed
        )

    def compare(self, path: str, mismatch: str | None) -> None:
        if mismatch:
            self.problems[Problem(path, mismatch, "ReleaseMismatch")] = None

    def _version(self) -> Release | None:
        text = self.spec.version
        if text is None:
            return None
        version = parse_release(text)
        if version is None:
            message = f"{text!r} is no Flower release; write one such as {NEWEST}"
            self.problems[Problem("spec.version", message, "UnknownRelease")] = None
            return NEWEST
        return self._checked("spec.version", version)

    def _checked(self, path: str, release: Release) -> Release:
        if release < OLDEST:
            message = f"Flower {release} is older than {OLDEST}, the oldest that is known here"
            self.problems[Problem(path, message, "UnknownRelease")] = None
        elif release.line > NEWEST.line:
            self._notice(
                f"{path}: Flower {release} is newer than {NEWEST}, the newest that is known here; "
                f"it is run like {NEWEST}"
            )
        return max(release, OLDEST)

    def _assume(self, path: str, image: str, release: Release) -> str:
        self.assumed[path] = (
            f"{path}: {image} names no Flower release, so it is assumed to be {release}; set "
            "spec.version to the release that it has"
        )
        return self.assumed[path]

    def _notice(self, text: str) -> None:
        self.notices[text] = None
