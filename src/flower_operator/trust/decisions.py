"""When to issue and rotate: small policies, each from what is stored to a step with its reason.

A step writes one object, so that there is no half of one. After it, decide again.

A CA is rotated in an order that breaks no connection that can be kept. The old one vouches for
the new one, so that the SuperLink can serve from it as soon as it is started anew, and clients
are started with it while no run is under way. Where the old one cannot, clients trust the new one
first, and then it is served from. When both are done, the old one is dropped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from .layout import Files, Part
from .records import (
    Authority,
    Certificate,
    Life,
    State,
    Unreadable,
    read_secret,
    whole_second,
)

OVERLAP = timedelta(days=30)
"""How long a new CA is published before it is used: some clients are out of sight."""
LAST_CALL = timedelta(days=3)
"""So long before the old CA ends the new one is used, whoever does not know it, and clients are
started with it, whatever they are at."""
SECRET_LIFE = timedelta(days=365)
LONGEST_DELAY = timedelta(days=30)
"""How long a run may keep the names of a certificate from being changed."""


class Step(StrEnum):
    KEEP = "Keep"
    ADD_AUTHORITY = "AddAuthority"
    CALL_CLIENTS = "CallClients"
    PUBLISH_BUNDLE = "PublishBundle"
    ISSUE_CERTIFICATE = "IssueCertificate"
    SERVE_FROM_NEW = "ServeFromNew"
    DROP_AUTHORITIES = "DropAuthorities"
    MAKE_SECRET = "MakeSecret"
    CHANGE_KEYS = "ChangeKeys"
    NOTE_NAMES = "NoteNames"
    ISSUE_SUPERNODE_CERTIFICATE = "IssueSuperNodeCertificate"

    @property
    def makes_certificate(self) -> bool:
        """Whether the step needs the library for that."""
        return self in (
            Step.ADD_AUTHORITY,
            Step.ISSUE_CERTIFICATE,
            Step.SERVE_FROM_NEW,
            Step.ISSUE_SUPERNODE_CERTIFICATE,
        )


@dataclass(frozen=True)
class Wanted:
    names: tuple[str, ...]
    """What the SuperLink's certificate is to be for."""
    overlap: timedelta = OVERLAP
    replace_before: datetime | None = None
    """CAs made before are to be replaced: someone asked for it then."""
    max_wait: timedelta | None = None
    """How long a run may put off what is due; never for longer than what there is lasts."""
    supernode: tuple[str, ...] = ()
    """What the certificate of SuperNodes is to be for; none: their own API has no TLS."""
    reread_within: timedelta | None = None
    """How soon a new certificate is served in place of the old one by a gateway, which needs no
    restart for it; None: the SuperLink is restarted."""


@dataclass(frozen=True)
class RolledOut:
    """What the processes that run now were started with."""

    serving: frozenset[str] = frozenset()
    """Identities of the certificates of SuperLinks."""
    trusting: frozenset[str] = frozenset()
    """For each client the newest CA that it was given, by identity; "" if none."""
    busy: bool = False
    """A run is under way, which a restart would disturb."""


@dataclass(frozen=True)
class Decision:
    step: Step
    reason: str
    message: str
    signer: str | None = None
    """Identity of the CA that signs, where one does."""
    names: tuple[str, ...] = ()
    """What the certificate is for, where one is made."""
    again: datetime | None = None
    """When it may be otherwise by the clock alone."""


@dataclass(frozen=True)
class _Case:
    state: State
    wanted: Wanted
    now: datetime
    rolled_out: RolledOut = field(default_factory=RolledOut)

    @property
    def newest(self) -> Authority:
        newest = self.state.newest
        assert newest
        return newest

    @property
    def called(self) -> Authority:
        called = self.state.called
        assert called
        return called

    def may_disturb(self, latest: datetime) -> bool:
        return not self.rolled_out.busy or self.now >= latest

    @property
    def serving_waits(self) -> bool:
        """Whether a new certificate of the SuperLink would disturb a run."""
        return self.rolled_out.busy and self.wanted.reread_within is None

    def may_serve(self, latest: datetime) -> bool:
        return not self.serving_waits or self.now >= latest

    @property
    def served_from(self) -> datetime:
        """From when on no gateway serves the certificate before this one."""
        return _certificate(self).made + (self.wanted.reread_within or timedelta())

    def renewal_limit(self, life: Life) -> datetime:
        """Until when a run may put off the renewal."""
        return latest_of(life.renewal, life.urgency, self.wanted.max_wait)

    def serving_limit(self, old: Authority) -> datetime:
        """Until when it may put off that the new CA is used."""
        return latest_of(self.newest.made + self.wanted.overlap, old.urgency, self.wanted.max_wait)

    def naming_limit(self, certificate: Certificate) -> datetime | None:
        """Until when it may put off a certificate for more names, if it does."""
        since = certificate.lacking
        return latest_of(since, since + LONGEST_DELAY, self.wanted.max_wait) if since else None

    def can_sign(self, authority: Authority | None) -> bool:
        return bool(authority and authority.key_digest and authority.valid_at(self.now))

    def heir(self, authority: Authority | None) -> Authority | None:
        """The newest CA, if who knows the other alone can follow to it; else the other."""
        voucher = self.newest.voucher
        if authority is None or voucher is None or not voucher.valid_at(self.now):
            return authority
        return self.newest if voucher.authority == authority.identity else authority


def decide(state: State, wanted: Wanted, now: datetime, rolled_out: RolledOut) -> Decision:
    """The next step, or to keep everything, with the reason."""
    case = _Case(state, wanted, now, rolled_out)
    waiting: Decision | None = None
    for policy in POLICIES:
        decision = policy(case)
        if decision and decision.step is not Step.KEEP:
            return decision
        waiting = waiting or decision
    assert state.certificate
    reason, message = "Valid", f"the certificate is valid until {day(state.certificate.not_after)}"
    if waiting:
        reason, message = waiting.reason, waiting.message
    again = min((time for time in _turns(case) if time > now), default=None)
    return Decision(Step.KEEP, reason, message, again=again)


def decide_secret(files: Files, now: datetime, *, busy: bool = False) -> Decision:
    """Whether the secret of the SuperExecs is to be made anew. An old one still serves, and a
    SuperExec that is refused ends, with its tasks: a run may put it off for as long as it takes."""
    try:
        secret = read_secret(files)
    except Unreadable as error:
        return Decision(Step.MAKE_SECRET, "SecretUnreadable", str(error))
    if secret is None:
        return Decision(Step.MAKE_SECRET, "NoSecret", "there is none yet")
    due = secret.made + SECRET_LIFE
    if now < due:
        return Decision(Step.KEEP, "Valid", f"it is used until {day(due)}", again=due)
    if busy:
        return wait("a new SuperExec secret")
    return Decision(Step.MAKE_SECRET, "SecretDue", f"it was made on {day(secret.made)}")


def _authority(case: _Case) -> Decision | None:
    """There is a CA that can sign, now and for long enough."""
    newest, now, fault = case.state.newest, case.now, case.state.faults.get(Part.AUTHORITIES)
    if newest is None or newest.key_digest is None:
        if fault:
            return _add("AuthorityUnreadable", f"the CA cannot be read: {fault}")
        if newest:
            return _add("AuthorityKeyMissing", "the CA's key is gone")
        return _add("NoAuthority", "there is no CA yet")
    if now >= newest.not_after:
        return _add("AuthorityExpired", f"the CA ended on {day(newest.not_after)}")
    if now < newest.not_before:
        return _add("AuthorityNotYetValid", f"the CA begins only on {day(newest.not_before)}")
    asked = case.wanted.replace_before
    # One that was asked for in the future would never be new enough.
    if asked and whole_second(asked) <= now and newest.made < whole_second(asked):
        return _add("RotationRequested", "a new CA was asked for")
    if now >= newest.renewal:
        return _add("AuthorityDue", f"the CA ends on {day(newest.not_after)}")
    return None


def _bundle(case: _Case) -> Decision | None:
    """Clients find every CA in their bundle."""
    wanted = tuple(each.identity for each in case.state.authorities)
    if case.state.published == wanted:
        return None
    if fault := case.state.faults.get(Part.BUNDLE):
        return _publish("BundleUnreadable", f"the bundle cannot be read: {fault}")
    if case.state.published is None:
        return _publish("NoBundle", "there is no bundle yet")
    return _publish("BundleDiffers", "the bundle does not hold the CAs that there are")


def _call(case: _Case) -> Decision | None:
    """Clients are started with the newest CA: no run need end for it while the old one lasts."""
    if case.newest.called:
        return None
    voucher, latest = case.newest.voucher, case.now
    if voucher and case.can_sign(case.called):
        latest = voucher.not_after - LAST_CALL
    if not case.may_disturb(latest):
        return wait("a restart of SuperNodes and SuperExecs with the new CA", latest)
    return Decision(Step.CALL_CLIENTS, "ClientsCalled", "SuperNodes and SuperExecs get the new CA")


def _usable(case: _Case) -> Decision | None:
    """The SuperLink has a certificate that clients may accept."""
    certificate, now = case.state.certificate, case.now
    if certificate is None:
        fault = case.state.faults.get(Part.SERVER)
        if fault:
            return _issue(case, "CertificateUnreadable", f"it cannot be read: {fault}")
        return _issue(case, "NoCertificate", "there is none yet")
    if case.state.authority(certificate.authority) is None:
        return _issue(case, "AuthorityUnknown", "it was signed by another CA")
    if now >= certificate.not_after:
        return _issue(case, "CertificateExpired", f"it ended on {day(certificate.not_after)}")
    if now < certificate.not_before:
        start = day(certificate.not_before)
        return _issue(case, "CertificateNotYetValid", f"it begins only on {start}")
    return None


def _serve(case: _Case) -> Decision | None:
    """The SuperLink serves from the newest CA, as soon as clients can follow."""
    certificate, newest, now = _certificate(case), case.newest, case.now
    if certificate.authority == newest.identity:
        return None
    old = case.state.authority(certificate.authority)
    if old is None or not old.valid_at(now):
        return _serve_new(case, "OldAuthorityInvalid", "nobody can accept the old CA any more")
    if case.heir(old) is newest:
        return None  # with the next certificate, which costs no restart of its own
    end = day(old.not_after)
    if now >= old.not_after - LAST_CALL:
        return _serve_new(case, "OldAuthorityEnds", f"the old CA ends on {end}")
    if case.rolled_out.trusting - {newest.identity}:
        return _keep("WaitingForClients", f"not every client has the new CA; the old ends on {end}")
    since = newest.made + case.wanted.overlap
    if now < since:
        return _keep("WaitingForOverlap", f"the new CA is published, and used from {day(since)}")
    latest = case.serving_limit(old)
    if not case.may_serve(latest):
        return wait("a certificate of the new CA", latest)
    return _serve_new(case, "ClientsTrustNew", "every client has the new CA")


def _renew(case: _Case) -> Decision | None:
    """The certificate is for the right names, and lasts."""
    certificate, now = _certificate(case), case.now
    authority = case.state.authority(certificate.authority)
    signer = case.heir(authority)
    if authority is None or not case.can_sign(signer):
        # Clients know the one that can sign, or they will not in time.
        late = now >= certificate.not_after - LAST_CALL
        return _serve_new(case, "CertificateEnds", "only the new CA can sign") if late else None
    waiting = None
    # Near the end of its CA a new one by that would end with it just the same.
    lasts = signer is not authority or certificate.not_after < authority.not_after
    if now >= certificate.renewal and lasts:
        latest = case.renewal_limit(certificate)
        if case.may_serve(latest):
            return _issue(case, "CertificateDue", f"it ends on {day(certificate.not_after)}")
        waiting = wait("a new certificate", latest)
    return _rename(case) or waiting


def _rename(case: _Case) -> Decision | None:
    """The certificate is for all names. One that it need not have any more stays until it is
    renewed, also beside new ones: an address that comes and goes restarts nothing."""
    certificate = _certificate(case)
    missing = sorted(set(case.wanted.names) - set(certificate.names))
    latest = case.naming_limit(certificate)
    if not missing:
        return _note("NamesComplete", "it is for all names again") if latest else None
    words = f"it is not for {', '.join(missing)}"
    if case.serving_waits and latest is None:
        return _note("NamesDiffer", words)
    if latest and not case.may_serve(latest):
        return wait(f"a certificate for {', '.join(missing)}", latest)
    names = tuple(dict.fromkeys((*case.wanted.names, *certificate.names)))
    return replace(_issue(case, "NamesDiffer", words), names=names)


def _supernode(case: _Case) -> Decision | None:
    """SuperNodes have one for their own API, by the CA that they are started with: who asks them is
    of the same pod, or started by it, and so has the same bundle."""
    if not case.wanted.supernode:
        return None
    certificate, called = case.state.supernode, case.called
    if certificate is None:
        fault = case.state.faults.get(Part.SUPERNODE)
        if fault:
            return _issue_supernode(case, "CertificateUnreadable", f"it cannot be read: {fault}")
        return _issue_supernode(case, "NoCertificate", "there is none yet")
    if not set(case.wanted.supernode) <= set(certificate.names):
        return _issue_supernode(case, "NamesDiffer", "it is not for all names")
    if certificate.authority != called.identity:
        return _issue_supernode(case, "AuthorityReplaced", "there is a newer CA")
    if not certificate.valid_at(case.now):
        return _issue_supernode(case, "CertificateInvalid", "it has ended, or not begun")
    if case.now >= certificate.renewal and certificate.not_after < called.not_after:
        latest = case.renewal_limit(certificate)
        if not case.may_disturb(latest):
            return wait("a new certificate of the SuperNodes", latest)
        end = day(certificate.not_after)
        return _issue_supernode(case, "CertificateDue", f"it ends on {end}")
    return None


def _drop(case: _Case) -> Decision | None:
    """Clients trust no more than they need."""
    certificate, (*old, newest) = _certificate(case), case.state.authorities
    if not old or not newest.called or certificate.authority != newest.identity:
        return None
    if case.rolled_out.serving - {certificate.identity} or case.now < case.served_from:
        return _keep("WaitingForSuperLink", "the SuperLink does not serve the new certificate yet")
    needed = any(each.valid_at(case.now) for each in old)
    # A SuperNode's own certificate may be by the old one, and its tasks read the bundle.
    if needed and case.rolled_out.trusting - {newest.identity}:
        return _keep("WaitingForClients", "not every client has the new CA")
    return Decision(Step.DROP_AUTHORITIES, "OldAuthorityUnused", "nothing serves from the old CA")


POLICIES: tuple[Callable[[_Case], Decision | None], ...] = (
    _authority,
    _bundle,
    _call,
    _usable,
    _serve,
    _renew,
    _supernode,
    _drop,
)


def _turns(case: _Case) -> Iterator[datetime]:
    """When any policy may say something else."""
    certificate, newest = _certificate(case), case.newest
    for life in (certificate, case.state.supernode):
        if life:
            yield from (life.renewal, case.renewal_limit(life), life.not_after)
    yield newest.renewal
    yield from (each.not_after for each in case.state.authorities)
    if newest.voucher:
        yield newest.voucher.not_after - LAST_CALL
    yield certificate.not_after - LAST_CALL
    yield case.served_from
    if latest := case.naming_limit(certificate):
        yield latest
    old = case.state.authority(certificate.authority)
    if old and old is not newest:
        yield from (newest.made + case.wanted.overlap, old.not_after - LAST_CALL)
        yield case.serving_limit(old)
    if case.wanted.replace_before:
        yield case.wanted.replace_before


def _certificate(case: _Case) -> Certificate:
    """Of a case that has one: an earlier policy saw to it."""
    assert case.state.certificate
    return case.state.certificate


def latest_of(due: datetime, longest: datetime, max_wait: timedelta | None) -> datetime:
    """Until when a run may put off what is due since then, and can wait so long at most."""
    return longest if max_wait is None else min(longest, due + max_wait)


def _add(reason: str, message: str) -> Decision:
    return Decision(Step.ADD_AUTHORITY, reason, message)


def _publish(reason: str, message: str) -> Decision:
    return Decision(Step.PUBLISH_BUNDLE, reason, message)


def _keep(reason: str, message: str) -> Decision:
    return Decision(Step.KEEP, reason, message)


def _note(reason: str, message: str) -> Decision:
    return Decision(Step.NOTE_NAMES, reason, f"the SuperLink's certificate: {message}")


def wait(what: str, latest: datetime | None = None) -> Decision:
    """`latest`: when it waits no longer; None: it waits for as long as it takes."""
    until = latest.strftime(", %Y-%m-%d %H:%M UTC at the latest") if latest else ""
    return _keep("WaitingForRuns", f"{what} waits until no run is under way{until}")


def _issue(case: _Case, reason: str, message: str) -> Decision:
    """By the CA that clients have known for longest, or its heir."""
    current = case.state.certificate
    own = case.state.authority(current.authority) if current else None
    able = [each for each in case.state.authorities if case.can_sign(each)]
    signer = case.heir(own)
    if not signer or not case.can_sign(signer):
        signer = able[0]
    words = f"the SuperLink's certificate: {message}"
    return Decision(Step.ISSUE_CERTIFICATE, reason, words, signer.identity, case.wanted.names)


def _issue_supernode(case: _Case, reason: str, message: str) -> Decision:
    step, words = Step.ISSUE_SUPERNODE_CERTIFICATE, f"the SuperNodes' certificate: {message}"
    return Decision(step, reason, words, case.called.identity, case.wanted.supernode)


def _serve_new(case: _Case, reason: str, message: str) -> Decision:
    signer, names = case.newest.identity, case.wanted.names
    return Decision(Step.SERVE_FROM_NEW, reason, message, signer, names)


def day(time: datetime) -> str:
    return time.date().isoformat()
