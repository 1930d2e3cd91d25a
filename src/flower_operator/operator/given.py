"""Keeps what is known of certificates that were made elsewhere, by a person or by cert-manager."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import SECRET
from ..render.admin_limits import NO_LIMITS, Limits, may_be_certified
from ..render.facts import Identities
from ..status.observation import Fault
from ..status.observed import Federation, TrustForm, Workload
from ..status.outline import Outline
from ..trust.decisions import Decision, RolledOut
from ..trust.given import Unfit, check, check_files, drop, start_with, take, version_of
from ..trust.layout import BUNDLE_FILE, Files, Part, Stored, decode_secret
from ..trust.records import Given, read_given
from ..trust.steps import Change
from . import issuer
from .caches import Caches
from .maker import Maker
from .safe import Safe, TrustFault, name_taken
from .transitions import Transition

LOOK_SECONDS = 60.0
"""Between looks at what is not ours, and of which no watch tells."""


@dataclass(frozen=True)
class Look:
    """A Federation as it is looked at once."""

    federation: Federation
    outline: Outline
    names: tuple[str, ...]
    """What its certificate is to be for."""
    workloads: tuple[Workload, ...]
    rolled_out: RolledOut
    now: datetime
    told: list[Transition] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """The certificates, whoever made them."""

    identities: Identities
    bundle: str
    decision: Decision
    fault: Fault | None = None


class Elsewhere:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        safe: Safe,
        maker: Maker,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self._client = client
        self._caches = caches
        self._safe = safe
        self._maker = maker
        self._limits = limits

    async def care(self, look: Look) -> Kept:
        """Publish the CAs of the certificate that there is, if it can be served. Raises TrustFault
        if none could be so far."""
        tls, name = look.outline.tls, Part.BUNDLE.object_name(look.federation.metadata.name)
        secret = tls.secret or issuer.certificate_name(look.federation)
        bundle = self._safe.files(look.federation, name, secret=False)
        known, fault = read_given(bundle), None
        if known and known.secret != secret:
            known = None
        try:
            files = await self._files(look, secret)
            change = await self._change(look, Stored(bundle=bundle, server=files), secret, known)
        except Unfit as error:
            field = "spec.tls.secretName" if tls.secret else "spec.tls.issuerRef"
            message = f"{field}: Secret {secret}: {error}"
            fault, change = Fault("CertificateUnfit", message), None
        except TrustFault as error:
            fault, change = error.fault, None
        if change:
            await self._safe.write(look.federation, name, change.files, secret=False)
            bundle, known = change.files, read_given(change.files)
        if known is None:
            assert fault
            raise TrustFault(fault)
        (certificate, authority), decision = start_with(
            known,
            running_with(look.workloads),
            look.rolled_out.busy,
            look.outline.max_wait,
            look.now,
        )
        return Kept(Identities(certificate, authority), bundle[BUNDLE_FILE], decision, fault)

    async def end_issuing(self, look: Look) -> None:
        """What cert-manager made for a Federation that has another source by now has to go."""
        namespace, name = look.federation.metadata.namespace, look.federation.metadata.name
        found = self._caches.trust(SECRET.kind, namespace, Part.SERVER.object_name(name))
        if found and issuer.ISSUED in found.metadata.annotations and not look.outline.tls.issuer:
            await issuer.withdraw(self._client, look.federation, found)

    async def _change(
        self, look: Look, stored: Stored, secret: str, known: Given | None
    ) -> Change | None:
        """What is to become of the bundle. Raises Unfit."""
        demanded = look.outline.tls.demanded
        if known and known.version == version_of(stored.server):
            check(known.certificate, demanded, look.now)
            return drop(stored, known, look.rolled_out)
        found = await self._maker.inspect(stored.server)
        check(found.certificate, demanded, look.now)
        message = f"the certificate of Secret {secret} fits"
        look.told.append(Transition("CertificateTaken", message, warning=False))
        return take(stored, found, secret, known, look.now, look.rolled_out)

    async def _files(self, look: Look, secret: str) -> Files:
        """The certificate, its key and its CAs. Raises Unfit or TrustFault."""
        asked = look.outline.tls.issuer
        if asked:
            # A load balancer's host name may come from an annotation of the Federation's.
            names = [
                name
                for name in look.names
                if name in look.outline.names or may_be_certified(name, self._limits)
            ]
            request = await issuer.ask(self._client, look.federation, asked, names)
            progress = f": {request.message}" if request.message else ""
            missing = Fault(
                "CertificatePending",
                f"Secret {secret}: cert-manager has not issued it yet{progress}",
            )
            files = await self._issued(look.federation, secret, request.uid)
        else:
            missing = Fault("SecretMissing", f"there is no Secret {secret}")
            files = await self._read(look.federation.metadata.namespace, secret)
        if not files:
            raise TrustFault(missing)
        check_files(files)
        return files

    async def _issued(self, federation: Federation, secret: str, certificate_uid: str) -> Files:
        """What cert-manager made; it is labelled, and so in the cache. Raises TrustFault."""
        found = self._caches.trust(SECRET.kind, federation.metadata.namespace, secret)
        if found is None:
            return {}
        if not issuer.is_issued(found, federation, certificate_uid):
            raise name_taken(f"Secret {secret}")
        if found.metadata.owner is None:
            answer = await issuer.adopt(self._client, federation, found)
            self._caches.put_trust(SECRET.kind, answer)
        return decode_secret(msgspec.json.decode(found.data or b"{}"))

    async def _read(self, namespace: str, secret: str) -> Files:
        """What someone else's Secret holds now: it has no label to follow it by."""
        try:
            answer = await self._client.get(SECRET.path(namespace, secret))
        except ApiError as error:
            if error.code != 404:
                raise
            return {}
        return decode_secret(msgspec.json.decode(msgspec.json.decode(answer, type=TrustForm).data))


def running_with(workloads: Iterable[Workload]) -> tuple[str, str]:
    """Certificate and CAs that pods were told to be started with."""
    every = list(workloads)
    certificates = [each.certificate for each in every if each.certificate]
    authorities = [each.authority for each in every if each.authority]
    return next(iter(certificates), ""), next(iter(authorities), "")
