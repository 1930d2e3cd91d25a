"""A certificate that was made elsewhere: whether it serves, and when pods are started with it.

What is known of it is in the record of the clients' bundle, so that the library for certificates
is needed once for each, and a wait for runs has one beginning.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from .decisions import LONGEST_DELAY, Decision, RolledOut, Step, day, latest_of, wait
from .layout import (
    BUNDLE_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    MAX_BUNDLE_BYTES,
    MAX_CHAIN_BYTES,
    MAX_KEY_BYTES,
    SERVER_FILES,
    Files,
    Part,
    Stored,
)
from .names import address_of
from .records import (
    Authority,
    Certificate,
    Given,
    digest,
    given_files,
    read_state,
    split_bundle,
)
from .steps import Change

MOST_AUTHORITIES = 8
"""Of clients, beside those of the certificate, whatever people do."""


_LIMITS = (
    (KEY_FILE, MAX_KEY_BYTES, "use an ECDSA key, or RSA of 4096 bits or fewer"),
    (CERTIFICATE_FILE, MAX_CHAIN_BYTES, "leave out certificates that are not of its chain"),
    (BUNDLE_FILE, MAX_BUNDLE_BYTES, "leave out CAs that did not issue the certificate"),
)


class Unfit(ValueError):
    """It cannot be served; the text says why."""


@dataclass(frozen=True)
class Inspected:
    """What a library read in the files."""

    certificate: Certificate
    """Its life is that of its whole chain."""
    authorities: tuple[Authority, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Inspected":
        content = json.loads(text)
        own = content["certificate"]
        own |= _times(own) | {"names": tuple(own["names"])}
        authorities = [Authority(**(each | _times(each))) for each in content["authorities"]]
        return cls(Certificate(**own), tuple(authorities))


def check_files(files: Files) -> None:
    """Raises Unfit if a file is missing, or so large that it should not even be parsed."""
    if missing := [file for file in SERVER_FILES if not files.get(file, "").strip()]:
        raise Unfit(f"it lacks {' and '.join(missing)}")
    for file, limit, remedy in _LIMITS:
        if (size := len(files[file].encode())) > limit:
            raise Unfit(f"{file} has {size:,} bytes, and {limit:,} are accepted: {remedy}")


def version_of(files: Files) -> str:
    """Tells one content of a Secret from another."""
    return digest("\0".join(files.get(file, "") for file in SERVER_FILES))


def check(certificate: Certificate, demanded: Iterable[str], now: datetime) -> None:
    """Raises Unfit if those who connect could not accept it."""
    if now >= certificate.not_after:
        raise Unfit(f"the certificate ended on {day(certificate.not_after)}")
    if now < certificate.not_before:
        raise Unfit(f"the certificate begins only on {day(certificate.not_before)}")
    missing = [name for name in demanded if not _covers(certificate.names, name)]
    if missing:
        raise Unfit(
            f"the certificate is not for {' and '.join(missing)}, by which it is connected to"
        )


def take(
    stored: Stored,
    inspected: Inspected,
    secret: str,
    known: Given | None,
    now: datetime,
    rolled_out: RolledOut,
) -> Change:
    """The bundle with its CAs, and with those that clients need for as long as another certificate
    is served. `known`: what was in this Secret before."""
    own = {each.identity for each in inspected.authorities}
    served = rolled_out.serving - {inspected.certificate.identity}
    before = read_state(Stored(bundle=stored.bundle)).authorities if served else ()
    kept = [each for each in before if each.identity not in own][-MOST_AUTHORITIES:]
    texts = split_bundle(stored.bundle.get(BUNDLE_FILE, ""))
    texts |= split_bundle(stored.server[BUNDLE_FILE])
    authorities = [*kept, *inspected.authorities]
    since = until = now
    if known and known.certificate.identity in rolled_out.serving:
        until = min(now + LONGEST_DELAY, max(now, known.certificate.urgency))
    elif known:  # it came while the one before it still waited
        since, until = known.since, known.until
    given = Given(
        inspected.certificate,
        secret,
        version_of(stored.server),
        tuple(each.identity for each in inspected.authorities),
        since,
        until,
    )
    files = given_files([texts[each.identity] for each in authorities], authorities, given)
    return Change(Part.BUNDLE, files)


def drop(stored: Stored, given: Given, rolled_out: RolledOut) -> Change | None:
    """The bundle without CAs that nothing is served from any more, if there are any."""
    state = read_state(Stored(bundle=stored.bundle))
    needed = [each for each in state.authorities if each.identity in given.trusted]
    if len(needed) == len(state.authorities) or rolled_out.serving - {given.certificate.identity}:
        return None
    texts = split_bundle(stored.bundle[BUNDLE_FILE])
    files = given_files([texts[each.identity] for each in needed], needed, given)
    return Change(Part.BUNDLE, files)


def start_with(
    given: Given, running: tuple[str, str], busy: bool, max_wait: timedelta | None, now: datetime
) -> tuple[tuple[str, str], Decision]:
    """Certificate and CAs that pods are to be started with, as identities, and why. `running`:
    what they were started with; empty where there are none."""
    certificate, wanted = given.certificate, (given.certificate.identity, given.trust)
    latest = latest_of(given.since, given.until, max_wait)
    if running[0] and running != wanted and busy and now < latest:
        waiting = wait(f"the new certificate of Secret {given.secret}", latest)
        return running, replace(waiting, again=latest)
    end = f"the certificate of Secret {given.secret} ends on {day(certificate.not_after)}"
    if now >= certificate.urgency:
        return wanted, Decision(Step.KEEP, "CertificateEnds", end, again=certificate.not_after)
    return wanted, Decision(Step.KEEP, "Valid", end, again=certificate.urgency)


def _covers(names: Iterable[str], name: str) -> bool:
    """Whether a certificate for `names` is one for `name`: a star stands for one label."""
    star = None if address_of(name) else f"*.{name.partition('.')[2]}"
    return any(each in (name, star) for each in names)


def _times(content: dict[str, str]) -> dict[str, datetime]:
    return {key: datetime.fromisoformat(content[key]) for key in ("not_before", "not_after")}
