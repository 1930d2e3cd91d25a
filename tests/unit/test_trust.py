"""When certificates and secrets are issued and rotated, and what they are."""

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key
from cryptography.x509 import verification
from hypothesis import given, settings
from hypothesis import strategies as st

from flower_operator.trust import certificates
from flower_operator.trust.certificates import AUTHORITY_LIFE, CERTIFICATE_LIFE, make_key_pair
from flower_operator.trust.decisions import (
    LAST_CALL,
    LONGEST_DELAY,
    OVERLAP,
    Decision,
    RolledOut,
    Step,
    Wanted,
    decide,
    decide_secret,
)
from flower_operator.trust.fingerprints import fingerprint
from flower_operator.trust.layout import (
    Files,
    Part,
    Stored,
    authority_key_file,
    decode_secret,
    encode_secret,
)
from flower_operator.trust.names import (
    address_of,
    normal_name,
    server_names,
    supernode_names,
    with_addresses,
)
from flower_operator.trust.records import Certificate, State, digest, read_state
from flower_operator.trust.steps import Change, Task, apply, make_secret, perform, settle
from tests.harness.certificates import huge_key

START = datetime(2027, 1, 15, 8, 30, 7, 123456, UTC)
DAY = timedelta(days=1)
NAMES = server_names("lab", "team")
WANTED = Wanted(NAMES)
ALL = Wanted(NAMES, max_wait=5 * DAY, supernode=supernode_names("lab", "team"))


def settled(
    stored: Stored,
    now: datetime,
    rolled_out: RolledOut | None = None,
    wanted: Wanted = WANTED,
) -> tuple[Stored, list[str], Decision]:
    """What is stored when no step is left, and the reasons of those that were taken."""
    stored, taken, last = settle(stored, wanted, "lab", "team", now, rolled_out or RolledOut())
    return stored, [decision.reason for decision, _ in taken], last


def fresh() -> Stored:
    return settled(Stored(), START)[0]


def state_of(stored: Stored) -> State:
    return read_state(stored)


def certificate_of(stored: Stored) -> Certificate:
    certificate = read_state(stored).certificate
    assert certificate
    return certificate


FRESH = fresh()
OLD = FRESH.bundle["ca.crt"]
DUE = read_state(FRESH).authorities[0].renewal


def test_everything_is_made_once_and_then_kept() -> None:
    stored, reasons, last = settled(Stored(), START)
    assert reasons == ["NoAuthority", "NoBundle", "NoCertificate"]
    assert (last.step, last.reason) == (Step.KEEP, "Valid")
    assert last.again == certificate_of(stored).renewal
    assert last.again
    assert settled(stored, last.again - timedelta(seconds=1))[1] == []
    assert settled(stored, last.again)[1] == ["CertificateDue"]
    assert stored.bundle["ca.crt"] == stored.authorities["ca.crt"] == stored.server["ca.crt"]


def test_the_certificates_are_what_clients_demand() -> None:
    authority = x509.load_pem_x509_certificate(FRESH.bundle["ca.crt"].encode())
    certificate = x509.load_pem_x509_certificate(FRESH.server["tls.crt"].encode())
    begin = START.replace(microsecond=0) - timedelta(minutes=5)
    assert authority.not_valid_before_utc == certificate.not_valid_before_utc == begin
    assert certificate.not_valid_after_utc == START.replace(microsecond=0) + CERTIFICATE_LIFE
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 1)
    for owner, digital_signature in ((authority, False), (certificate, True)):
        usage = owner.extensions.get_extension_for_class(x509.KeyUsage).value
        assert usage.digital_signature is digital_signature
        assert not usage.key_encipherment  # ECDSA keys encrypt nothing
    store = verification.Store([authority])
    for name in NAMES:
        address = x509.IPAddress(ip) if (ip := address_of(name)) else None
        subject = address or x509.DNSName(name)
        verifier = verification.PolicyBuilder().store(store).time(START)
        verifier.build_server_verifier(subject).verify(certificate, [])
    context = ssl.create_default_context(cadata=FRESH.bundle["ca.crt"])
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    assert len(context.get_ca_certs()) == 1


def test_every_form_of_the_services_name_and_more() -> None:
    assert server_names("lab", "team", ["Fed.Example.ORG.", "192.0.2.7", "2001:DB8:0::1"]) == (
        "lab-superlink",
        "lab-superlink.team",
        "lab-superlink.team.svc",
        "lab-superlink.team.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        "::1",
        "fed.example.org",
        "192.0.2.7",
        "2001:db8::1",
    )
    found = with_addresses(("a",), ["192.0.2.7", "A", "not a name!", "LB.example.org."])
    assert found == ("a", "192.0.2.7", "lb.example.org"), "others are less careful"
    assert normal_name("*.example.org") == "*.example.org"
    longest = ".".join(["a" * 62] * 4) + ".a"
    assert (len(longest), normal_name(longest)) == (253, longest)
    for bad in (
        "",
        "a b",
        "-a",
        "a..b",
        "*",
        "a.*.b",
        "münchen.de",
        "a\n",
        "fe80::1%eth0",
        "a" * 254,
    ):
        with pytest.raises(ValueError, match="is neither a DNS name nor an IP address"):
            normal_name(bad)


def test_other_names_are_a_reason_for_a_new_certificate_by_the_same_authority() -> None:
    more = Wanted((*NAMES, "192.0.2.7"))
    decision = decide(state_of(FRESH), more, START, RolledOut())
    assert decision.message == "the SuperLink's certificate: it is not for 192.0.2.7"
    stored, reasons, _ = settled(FRESH, START, wanted=more)
    assert reasons == ["NamesDiffer"]
    assert certificate_of(stored).authority == certificate_of(FRESH).authority
    assert settled(stored, START, wanted=more)[1] == []
    assert settled(stored, START)[1] == [], "nothing is restarted to take a name away"
    other = Wanted((*NAMES, "192.0.2.8"))
    stored, reasons, _ = settled(stored, START, wanted=other)
    assert (reasons, set(certificate_of(stored).names)) == (
        ["NamesDiffer"],
        {*NAMES, "192.0.2.7", "192.0.2.8"},
    ), "the first may come again"
    stored, reasons, _ = settled(stored, certificate_of(stored).renewal, wanted=other)
    assert (reasons, certificate_of(stored).names) == (["CertificateDue"], other.names)


def test_other_names_wait_for_runs_and_not_for_ever() -> None:
    wanted, busy = Wanted((*NAMES, "192.0.2.7")), RolledOut(busy=True)
    stored, reasons, last = settled(FRESH, START, busy, wanted)
    assert (reasons, last.reason) == (["NamesDiffer"], "WaitingForRuns")
    assert certificate_of(stored).identity == certificate_of(FRESH).identity
    since = START.replace(microsecond=0)
    assert last.again == since + LONGEST_DELAY
    until = (since + LONGEST_DELAY).strftime("%Y-%m-%d %H:%M UTC")
    assert last.message == (
        f"a certificate for 192.0.2.7 waits until no run is under way, {until} at the latest"
    )
    assert settled(stored, START + DAY, busy, wanted)[1] == []
    for now, rolled_out in ((START + DAY, RolledOut()), (START + LONGEST_DELAY, busy)):
        renewed, reasons, _ = settled(stored, now, rolled_out, wanted)
        assert (reasons, certificate_of(renewed).names) == (["NamesDiffer"], wanted.names)
    assert settled(stored, START + DAY, busy)[1] == ["NamesComplete"], "it is not lacking now"
    assert settled(stored, START + DAY, busy, replace(wanted, max_wait=DAY))[1] == ["NamesDiffer"]


@settings(max_examples=40, deadline=None)
@given(st.one_of(st.none(), st.integers(0, 24 * 400)), st.floats(-0.2, 1.2), st.booleans())
def test_runs_put_off_a_certificate_for_so_long_and_no_longer(
    hours: int | None, part: float, busy: bool
) -> None:
    """At once if no run is under way; if one is, after `max_wait`, and never later than without."""
    max_wait = None if hours is None else timedelta(hours=hours)
    due, longest = certificate_of(FRESH).renewal, certificate_of(FRESH).urgency
    now = due + (longest - due) * part
    wanted = Wanted(NAMES, max_wait=max_wait)
    decision = decide(state_of(FRESH), wanted, now, RolledOut(busy=busy))
    latest = longest if max_wait is None else min(longest, due + max_wait)
    renews = decision.reason == "CertificateDue"
    assert renews == (now >= (latest if busy else due)), decision
    if busy and due <= now < latest:
        assert decision.reason == "WaitingForRuns"
        assert decision.again
        assert now < decision.again <= latest


REREAD = timedelta(minutes=5)
GATEWAY = Wanted(NAMES, reread_within=REREAD)


@pytest.mark.parametrize("late", [timedelta(seconds=-1), timedelta()])
def test_a_gateway_gets_a_new_certificate_under_a_run(late: timedelta) -> None:
    busy, now = RolledOut(busy=True), certificate_of(FRESH).renewal + late
    assert settled(FRESH, now, busy, GATEWAY)[1] == ([] if late else ["CertificateDue"])
    assert settled(FRESH, now, busy)[1] == []


def test_a_gateway_gets_a_certificate_for_more_names_under_a_run() -> None:
    wanted, busy = replace(GATEWAY, names=(*NAMES, "192.0.2.7")), RolledOut(busy=True)
    stored, reasons, last = settled(FRESH, START, busy, wanted)
    assert (reasons, last.reason) == (["NamesDiffer"], "Valid")
    assert certificate_of(stored).names == wanted.names


def test_the_old_authority_is_trusted_until_no_gateway_serves_from_it() -> None:
    """Nobody says when that is: a kubelet passes a Secret on when it next looks."""
    asked = replace(GATEWAY, replace_before=START + DAY)
    stored, now = settled(FRESH, START + DAY, clients(), asked)[0], certificate_of(FRESH).renewal
    stored, reasons, last = settled(stored, now, clients(state_of(stored)), GATEWAY)
    assert (reasons, last.reason) == (["CertificateDue"], "WaitingForSuperLink")
    assert last.again == certificate_of(stored).made + REREAD
    rolled_out = clients(state_of(stored))
    before = last.again - timedelta(seconds=1)
    assert settled(stored, before, rolled_out, GATEWAY)[1] == []
    assert settled(stored, last.again, rolled_out, GATEWAY)[1][0] == "OldAuthorityUnused"


def clients(*trusting: State, serving: Stored | None = None, busy: bool = False) -> RolledOut:
    return RolledOut(
        frozenset({certificate_of(serving).identity} if serving else ()),
        frozenset(state.newest.identity for state in trusting if state.newest),
        busy,
    )


def accepts(roots: str, server: Files, now: datetime) -> bool:
    """Whether who trusts these CAs accepts what is served, by a library's account."""
    trusted = x509.load_pem_x509_certificates(roots.encode())
    own, *others = x509.load_pem_x509_certificates(server["tls.crt"].encode())
    policy = verification.PolicyBuilder().store(verification.Store(trusted)).time(now)
    try:
        policy.build_server_verifier(x509.DNSName("localhost")).verify(own, others)
    except verification.VerificationError:
        return False
    return True


def test_a_new_authority_is_vouched_for_and_comes_with_the_next_certificate() -> None:
    old = state_of(FRESH)
    before, _, last = settled(FRESH, DUE - DAY, clients(old))
    assert last.again == DUE
    stored, reasons, last = settled(before, DUE, clients(old, serving=before, busy=True))
    assert reasons == ["AuthorityDue", "BundleDiffers"], "which disturbs no run"
    both, end = state_of(stored), old.authorities[0].not_after
    assert both.called == both.authorities[0]
    until = (end - LAST_CALL).strftime("%Y-%m-%d %H:%M UTC")
    assert last.message == (
        "a restart of SuperNodes and SuperExecs with the new CA waits until no run is under way, "
        f"{until} at the latest"
    )
    stored, reasons, _ = settled(
        stored, certificate_of(stored).urgency, clients(old, serving=stored, busy=True)
    )
    assert reasons == ["CertificateDue"]
    served, now = certificate_of(stored), certificate_of(stored).made
    assert served.authority == both.authorities[1].identity
    texts = [OLD, stored.bundle["ca.crt"], stored.server["ca.crt"]]
    assert [accepts(each, stored.server, now) for each in texts] == [True] * 3
    assert [accepts(each, stored.server, end + DAY) for each in texts] == [False] * 3
    assert not accepts(fresh().bundle["ca.crt"], stored.server, now)
    stored, reasons, last = settled(stored, now, clients(old, serving=stored))
    assert (reasons, last.reason) == (["ClientsCalled"], "WaitingForClients")
    called = state_of(stored)
    assert called.called == called.authorities[1]
    stored, reasons, last = settled(stored, now, clients(old, called, serving=stored))
    assert (reasons, last.reason) == ([], "WaitingForClients"), "one client is not enough"
    stored, reasons, last = settled(stored, now, clients(called, serving=stored))
    assert (reasons, last.reason) == (["OldAuthorityUnused", "BundleDiffers"], "Valid")
    assert state_of(stored).authorities == called.authorities[1:]
    assert len([name for name in stored.authorities if name.endswith(".key")]) == 1
    # Who has had the old one since is led on for as long as it lasts.
    stored, _, _ = settled(stored, end - DAY, clients(called, serving=stored))
    assert accepts(OLD, stored.server, end - DAY)
    late = min(end + DAY, certificate_of(stored).not_after - DAY)
    assert accepts(stored.bundle["ca.crt"], stored.server, late), (
        "what has ended is in nobody's way"
    )
    stored, _, _ = settled(stored, end + 90 * DAY, clients(called, serving=stored))
    assert stored.server["tls.crt"].count("BEGIN") == 1


def rotating(wanted: Wanted = WANTED) -> Stored:
    """With a new CA, of which clients have not heard yet."""
    stored, _, _ = settled(FRESH, DUE - DAY, clients(state_of(FRESH)), wanted)
    busy = clients(state_of(FRESH), serving=stored, busy=True)
    return settled(stored, DUE, busy, wanted)[0]


@pytest.mark.parametrize("lost", [False, True])
def test_clients_get_a_new_authority_before_the_old_one_ends(lost: bool) -> None:
    """Whatever run is under way; or at once, if the old one cannot sign for them until then."""
    stored, busy = rotating(ALL), clients(state_of(FRESH), busy=True)
    old, new = state_of(stored).authorities
    now = old.not_after - LAST_CALL
    before = now - DAY
    if lost:
        now = before = DUE + DAY
    assert "ClientsCalled" not in settled(stored, before, busy, ALL)[1]
    if lost:
        stored = replace(stored, authorities={**stored.authorities, f"{old.identity[:16]}.key": ""})
    stored, reasons, _ = settled(stored, now, busy, ALL)
    assert "ClientsCalled" in reasons
    supernode = state_of(stored).supernode
    assert supernode
    assert supernode.authority == new.identity


def test_one_that_nobody_vouches_for_is_trusted_then_served_then_alone() -> None:
    old, lost = state_of(FRESH), replace(FRESH, authorities={})
    stored, reasons, last = settled(lost, START, clients(old, serving=FRESH, busy=True))
    assert reasons == ["AuthorityKeyMissing", "BundleDiffers"]
    both = state_of(stored)
    assert both.published == tuple(each.identity for each in both.authorities)
    assert both.called == both.authorities[1], "it cannot be used before clients have it"
    assert last.reason == "WaitingForClients"
    stored, reasons, last = settled(stored, START, clients(old, both, serving=stored))
    assert (reasons, last.reason) == ([], "WaitingForClients"), "one client is not enough"
    stored, reasons, last = settled(stored, START, clients(both, serving=stored))
    assert (reasons, last.reason) == ([], "WaitingForOverlap"), "some clients are out of sight"
    later, before = START + OVERLAP, stored
    stored, reasons, last = settled(stored, later, clients(both, serving=before))
    assert (reasons, last.reason) == (["ClientsTrustNew"], "WaitingForSuperLink")
    assert certificate_of(stored).authority == both.authorities[1].identity
    assert state_of(stored).published == both.published, "clients keep both until it is served"
    stored, reasons, last = settled(stored, later, clients(both, serving=stored))
    assert (reasons, last.reason) == (["OldAuthorityUnused", "BundleDiffers"], "Valid")
    assert state_of(stored).authorities == both.authorities[1:]


@pytest.mark.parametrize("damage", ["", "{} and more"])
def test_clients_that_never_follow_are_left_behind_only_at_the_end(damage: str) -> None:
    """If there is nothing left to lead them on."""
    stored, waiting = rotating(), clients(state_of(FRESH))
    old, new = state_of(stored).authorities
    file = f"{new.identity[:16]}.crt"
    damaged = {file: damage.format(stored.authorities[file])}
    stored = replace(stored, authorities={**stored.authorities, **damaged})
    end = old.not_after
    stored, _, _ = settled(stored, end - 60 * DAY, waiting)
    _, reasons, last = settled(stored, end - LAST_CALL - DAY, waiting)
    assert (reasons, last.reason) == ([], "WaitingForClients")
    assert last.again == end - LAST_CALL
    assert certificate_of(stored).not_after == end, "it is not outlived by what it signed"
    assert settled(stored, end - LAST_CALL, waiting)[1][0] == "OldAuthorityEnds"
    assert settled(stored, end + DAY, waiting)[1][0] == "CertificateExpired"


def test_a_run_is_not_disturbed_until_it_must_be() -> None:
    due = certificate_of(FRESH).renewal
    _, reasons, last = settled(FRESH, due, RolledOut(busy=True))
    assert (reasons, last.reason) == ([], "WaitingForRuns")
    assert last.again == certificate_of(FRESH).urgency
    assert settled(FRESH, certificate_of(FRESH).urgency, RolledOut(busy=True))[1] == [
        "CertificateDue"
    ]


def test_a_rotation_that_is_asked_for() -> None:
    asked = Wanted(NAMES, overlap=timedelta(), replace_before=START + DAY)
    assert settled(FRESH, START, wanted=asked)[1] == [], "not before its time, and not for ever"
    stored, reasons, _ = settled(FRESH, START + DAY, wanted=asked)
    assert reasons == [
        "RotationRequested",
        "BundleDiffers",
        "ClientsCalled",
    ], "where nothing runs, nothing needs to be waited for"
    assert settled(stored, START + 2 * DAY, wanted=asked)[1] == []


@pytest.mark.parametrize("part", [Part.AUTHORITIES, Part.BUNDLE, Part.SERVER])
@pytest.mark.parametrize("damage", ["", "garbage", "{}", "null", "\0", None, "more"])
def test_whatever_is_damaged_is_noticed_told_and_mended(part: Part, damage: str | None) -> None:
    for file in FRESH.of(part):
        left = {name: text for name, text in FRESH.of(part).items() if name != file}
        files = left if damage is None else left | {file: damage}
        if damage == "more":
            files[file] = FRESH.of(part)[file] + "-----BEGIN CERTIFICATE-----"
        stored, reasons, last = settled(apply(Change(part, files), FRESH), START)
        unreadable = {
            Part.AUTHORITIES: "AuthorityUnreadable",
            Part.BUNDLE: "BundleUnreadable",
            Part.SERVER: "CertificateUnreadable",
        }
        assert reasons[0] == unreadable[part], file
        assert last.step is Step.KEEP
        assert state_of(stored).faults == {}
        if part is Part.AUTHORITIES:
            assert OLD in stored.bundle["ca.crt"], "clients go on trusting what they trusted"
            assert certificate_of(stored) == certificate_of(FRESH), "and can go on"


def test_a_key_of_a_ca_that_is_too_large_to_parse_counts_as_lost() -> None:
    """Someone wrote it there, and a record that agrees with it."""
    record = json.loads(FRESH.authorities["record.json"])
    (authority,) = record["authorities"]
    authority["key"] = digest(huge_key())
    files = {
        **FRESH.authorities,
        authority_key_file(authority["certificate"]): huge_key(),
        "record.json": json.dumps(record),
    }
    stored, reasons, _ = settled(replace(FRESH, authorities=files), START)
    assert reasons[0] == "AuthorityUnreadable"
    assert huge_key() not in stored.authorities.values()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("notAfter", "2027-04-15T08:30:07"),
        ("notAfter", "9999-12-31T23:59:59+00:00"),
        ("notAfter", "2020-01-01T00:00:00+00:00"),
        ("notBefore", 7),
        ("names", "localhost"),
        ("names", [1]),
        ("authority", None),
        ("certificate", []),
        ("key", {}),
    ],
)
def test_a_record_that_makes_no_sense_is_no_crash(key: str, value: Any) -> None:
    record = json.loads(FRESH.server["record.json"]) | {key: value}
    files = {**FRESH.server, "record.json": json.dumps(record)}
    stored = replace(FRESH, server=files)
    assert settled(stored, START)[1] == ["CertificateUnreadable"]


def test_a_lost_object_is_made_anew_and_the_rest_stays() -> None:
    assert settled(replace(FRESH, bundle={}), START)[1] == ["NoBundle"]
    assert settled(replace(FRESH, server={}), START)[1] == ["NoCertificate"]
    waiting = clients(state_of(FRESH), serving=FRESH)
    stored, reasons, last = settled(replace(FRESH, authorities={}), START, waiting)
    assert reasons == ["AuthorityKeyMissing", "BundleDiffers"]
    assert (last.reason, stored.server) == ("WaitingForClients", FRESH.server)
    end = certificate_of(stored).not_after
    assert settled(stored, end - LAST_CALL - DAY, waiting)[1] == []
    assert settled(stored, end - LAST_CALL, waiting)[1][0] == "CertificateEnds"


def test_a_certificate_of_another_authority_is_replaced() -> None:
    assert settled(replace(FRESH, server=fresh().server), START)[1] == ["AuthorityUnknown"]


def test_a_clock_that_was_wrong() -> None:
    """Issued in the future, then set right; issued in the past, then set right."""
    stored, reasons, _ = settled(FRESH, START - DAY)
    assert reasons[0] == "AuthorityNotYetValid"
    assert certificate_of(stored).valid_at(START - DAY)
    stored, reasons, last = settled(FRESH, START + 10 * AUTHORITY_LIFE)
    assert reasons[0] == "AuthorityExpired"
    assert last.reason == "Valid"


def test_secrets_of_kubernetes_come_back_and_garbage_is_left_out() -> None:
    assert decode_secret(encode_secret(FRESH.server)) == FRESH.server
    assert decode_secret({"a": "%%", "b": None, "c": "/w==", "d": "aGk="}) == {"d": "hi"}
    assert decode_secret(None) == decode_secret("x") == {}


def test_the_secret_of_superexecs_is_changed_once_a_year() -> None:
    assert decide_secret({}, START).reason == "NoSecret"
    files = make_secret(bytes(range(32)), START)
    assert len(files["secret"]) == 64
    assert files["secret"].isalnum(), "no newline, which Flower would count"
    kept = decide_secret(files, START)
    assert (kept.step, kept.again) == (Step.KEEP, START.replace(microsecond=0) + 365 * DAY)
    assert decide_secret(files, START + 365 * DAY).reason == "SecretDue"
    for days in (365, 3650):
        waiting = decide_secret(files, START + days * DAY, busy=True)
        assert waiting.step is Step.KEEP, "a SuperExec that is refused ends its runs"
        assert waiting.message == "a new SuperExec secret waits until no run is under way"
    assert decide_secret({**files, "secret": "other"}, START).reason == "SecretUnreadable"
    assert decide_secret({"secret": "by hand"}, START).reason == "SecretUnreadable"
    with pytest.raises(ValueError, match="32 random bytes"):
        make_secret(b"short", START)


def test_a_supernodes_key_is_in_the_forms_that_flower_reads() -> None:
    key = make_key_pair()
    assert key.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    public = load_ssh_private_key(key.private.encode(), None).public_key()
    assert public == load_pem_public_key(key.public.encode())
    assert fingerprint(key.public) != fingerprint(make_key_pair().public)


def test_a_fingerprint_is_the_one_that_ssh_keygen_prints() -> None:
    public = (
        "-----BEGIN PUBLIC KEY-----\n"
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n"
        "6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n"
        "-----END PUBLIC KEY-----\n"
    )
    assert fingerprint(public) == "SHA256:SFMVDOrhOSBssOVH9hIcK/Z2XVf1oSVMjNCL8u2aICY"
    for bad in ("", "x", public.replace("MFkw", "MFkx"), public.replace("9Q==", "")):
        with pytest.raises(ValueError, match="no public key"):
            fingerprint(bad)


def test_the_decisions_load_no_library_for_certificates() -> None:
    code = (
        "import sys, flower_operator.trust.decisions, flower_operator.trust.steps\n"
        "import flower_operator.trust.names, flower_operator.trust.fingerprints\n"
        "import flower_operator.trust.given\n"
        "sys.exit(bool({'cryptography', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_step_in_a_process_of_its_own() -> None:
    decision = decide(read_state(Stored()), WANTED, START, RolledOut())
    task = Task(decision, Stored(), "lab", "team", START)
    command = [sys.executable, "-m", "flower_operator.trust.steps"]
    done = subprocess.run(command, input=task.to_json(), capture_output=True, text=True, check=True)
    change = Change.from_json(done.stdout)
    assert change.part is Part.AUTHORITIES
    assert decide(read_state(apply(change, Stored())), WANTED, START, RolledOut()).step is (
        Step.PUBLISH_BUNDLE
    )


@dataclass
class World:
    """A SuperLink and its clients, each with what was stored when it was started."""

    now: datetime = START
    stored: Stored = field(default_factory=Stored)
    state: State = field(default_factory=State)
    link: State = field(default_factory=State)
    nodes: list[State] = field(default_factory=lambda: [State()] * 3)
    reasons: list[str] = field(default_factory=list)

    def put(self, change: Change) -> None:
        self.stored = apply(change, self.stored)
        self.state = read_state(self.stored)

    def operate(self, *, busy: bool = False, wanted: Wanted = ALL) -> datetime:
        """As the operator does: until there is nothing left to do; then when to look again."""
        served = self.link.certificate
        facts = RolledOut(
            frozenset([served.identity] if served else ()),
            frozenset(node.called.identity if node.called else "" for node in self.nodes),
            busy,
        )
        for _ in range(10):
            decision = decide(self.state, wanted, self.now, facts)
            assert decision.reason
            assert decision.message
            if decision.step is Step.KEEP:
                assert decision.again
                assert decision.again > self.now
                return decision.again
            self.put(perform(Task(decision, self.stored, "lab", "team", self.now)))
            self.reasons.append(decision.reason)
        raise AssertionError(f"it never ends: {self.reasons[-10:]}")

    def restart_link(self) -> None:
        self.link = self.state

    def restart_node(self, number: int) -> None:
        self.nodes[number] = self.state

    def restart(self) -> None:
        self.restart_link()
        self.nodes = [self.state] * 3

    def broken(self) -> Iterator[str]:
        """Connections that could not be made now."""
        served = self.link.certificate
        if not served or not served.valid_at(self.now):
            yield f"{self.now}: the served certificate is not valid"
            return
        served_from = self.link.authority(served.authority)
        voucher = served_from.voucher if served_from and served.voucher else None
        for number, node in enumerate(self.nodes):
            roots = [served.authority, *([voucher.authority] if voucher else [])]
            known = [node.authority(each) for each in roots if each in (node.published or ())]
            if not any(each and each.valid_at(self.now) for each in known):
                yield f"{self.now}: client {number} does not trust what is served"
            own = node.supernode
            if not own or not own.valid_at(self.now) or own.authority not in (node.published or ()):
                yield f"{self.now}: tasks of client {number} cannot trust it"


def started() -> World:
    world = World()
    world.operate()
    world.restart()
    return world


def test_ten_years_in_which_every_connection_can_be_made() -> None:
    world = started()
    most = 0
    for day in range(3650):
        world.now = START + day * DAY
        world.operate(busy=day % 50 < 45)
        assert not list(world.broken())
        # A SuperLink is restarted within two days, clients one by one within a month.
        if day % 2 == 0:
            world.restart_link()
        if day % 10 == 0:
            world.restart_node(day // 10 % 3)
        most = max(most, len(world.state.authorities))
    assert [each for each in world.reasons[4:] if each != "CertificateDue"] == 2 * [
        "AuthorityDue",
        "BundleDiffers",
        "ClientsCalled",
        "AuthorityReplaced",
        "OldAuthorityUnused",
        "BundleDiffers",
    ]
    assert world.reasons.count("CertificateDue") > 40
    assert most == 2


def test_ten_years_behind_a_gateway_that_serves_what_was_stored_some_minutes_ago() -> None:
    """Always under runs, but for a few days; and clients start at any time."""
    world, wanted = started(), replace(ALL, reread_within=REREAD)
    world.link = State()  # nobody says what is served
    for day in range(3650):
        world.now, served = START + day * DAY, world.stored.server
        for _ in range(2):
            world.operate(busy=day % 50 < 45, wanted=wanted)
            started_now = world.stored.bundle["ca.crt"]
            for server in (served, world.stored.server):
                assert accepts(started_now, server, world.now)
            world.now, served = world.now + REREAD, world.stored.server
        world.restart_node(day % 3)
    assert world.reasons.count("CertificateDue") > 40
    assert world.reasons.count("OldAuthorityUnused") == 2


def test_ten_years_of_runs_in_which_whoever_has_an_old_bundle_is_let_down_by_none() -> None:
    """Always a run under way, that nothing but the end of a CA may end; and for each bundle that
    there is someone who fetches that and no other."""
    world, wanted = started(), replace(ALL, max_wait=timedelta(), supernode=())
    fetched: dict[str, datetime] = {}
    called = world.state.called
    while world.now < START + 3650 * DAY:
        now, again = world.now, world.operate(busy=True, wanted=wanted)
        world.restart_link()
        if world.state.called != called:
            assert called
            assert world.now == called.not_after - LAST_CALL, "clients were restarted under a run"
            called = world.state.called
            world.nodes = [world.state] * 3
        newest = world.state.newest
        assert newest
        fetched[world.stored.bundle["ca.crt"]] = newest.not_after
        for roots in [each for each, end in fetched.items() if end > again]:
            assert accepts(roots, world.stored.server, now)
            assert accepts(roots, world.stored.server, again - timedelta(seconds=1))
        world.now = again
    assert world.reasons.count("ClientsCalled") == 2
    assert len(fetched) == 6, "the first CA, then each with the one before it, and alone"


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "link", "node", "names", "ask", "damage", "lose", "clock"]),
        st.integers(0, 10_000),
    ),
    max_size=25,
)


def happen(world: World, wanted: Wanted, kind: str, number: int) -> Wanted:
    part = (Part.AUTHORITIES, Part.BUNDLE, Part.SERVER, Part.SUPERNODE)[number % 4]
    files = dict(world.stored.of(part))
    match kind:
        case "wait":
            world.now += number % 700 * DAY
        case "clock":
            world.now -= number % 700 * DAY
        case "link":
            world.restart_link()
        case "node":
            world.restart_node(number % 3)
        case "names":
            return replace(wanted, names=(*NAMES, f"192.0.2.{number % 250}"))
        case "ask":
            return replace(wanted, replace_before=world.now)
        case "damage":
            file = sorted(files)[number % len(files)]
            world.put(Change(part, {**files, file: files[file][: number % 300]}))
        case "lose":
            world.put(Change(part, {}))
    return wanted


@settings(max_examples=12, deadline=None)
@given(EVENTS)
def test_whatever_happens_it_ends_in_a_connection(events: list[tuple[str, int]]) -> None:
    world, wanted = started(), ALL
    for kind, number in events:
        wanted = happen(world, wanted, kind, number)
        world.operate(busy=number % 2 == 0, wanted=wanted)
        assert len(world.state.authorities) <= certificates.MOST_AUTHORITIES + 1
    world.restart()
    assert not list(world.broken())


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 7), st.booleans()), max_size=40))
def test_clients_that_are_in_time_are_never_cut_off(
    days: list[tuple[int, int, bool]],
) -> None:
    """Whatever is restarted when, as long as it is before what it runs with ends."""
    world = started()
    world.now = DUE - DAY
    world.operate()
    world.restart()
    for wait, which, busy in days:
        for _ in range(wait):
            world.now += DAY
            world.operate(busy=busy)
            served = world.link.certificate
            if served and world.now + 2 * DAY > served.not_after:
                world.restart_link()
            own = min(node.supernode.not_after for node in world.nodes if node.supernode)
            first = min(own, world.state.authorities[0].not_after - LAST_CALL)
            if world.now + 2 * DAY > first:
                world.restart()
            assert not list(world.broken())
        if which & 4:
            world.restart_link()
        else:
            world.restart_node(which % 3)
