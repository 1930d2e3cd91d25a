"""Certificates that were made elsewhere: which are served, and when pods are started with them."""

import base64
import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from flower_operator.trust.decisions import LONGEST_DELAY, RolledOut, Wanted
from flower_operator.trust.given import (
    Inspected,
    Unfit,
    check,
    check_files,
    drop,
    start_with,
    take,
    version_of,
)
from flower_operator.trust.inspection import inspect
from flower_operator.trust.layout import Files, Stored
from flower_operator.trust.names import server_names
from flower_operator.trust.records import Given, read_given, read_state
from flower_operator.trust.steps import settle

START = datetime(2027, 1, 15, 8, 30, 7, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = server_names("lab", "team")
DEMANDED = ("lab-superlink.team.svc", "127.0.0.1")


def issued(now: datetime = START, names: tuple[str, ...] = NAMES) -> Files:
    """A certificate by a CA of its own, as someone else may make it."""
    stored, _, _ = settle(Stored(), Wanted(names), "other", "other", now, RolledOut())
    return {name: text for name, text in stored.server.items() if name != "record.json"}


FIRST, SECOND = issued(), issued()


def taken(
    files: Files, bundle: Files, now: datetime, serving: str = "", known: Given | None = None
) -> tuple[Files, Given]:
    stored = Stored(bundle=bundle, server=files)
    rolled_out = RolledOut(serving=frozenset([serving] if serving else ()))
    change = take(stored, inspect(files), "mine", known, now, rolled_out)
    given = read_given(change.files)
    assert given
    return change.files, given


def test_a_certificate_is_known_by_what_is_in_it() -> None:
    found = inspect(FIRST)
    assert Inspected.from_json(found.to_json()) == found
    assert set(found.certificate.names) == set(NAMES)
    assert found.certificate.not_after == START + 90 * DAY
    check(found.certificate, DEMANDED, START)
    bundle, given = taken(FIRST, {}, START)
    assert bundle["ca.crt"] == FIRST["ca.crt"]
    assert given.certificate == found.certificate
    assert (given.secret, given.version) == ("mine", version_of(FIRST))
    assert read_given({**bundle, "ca.crt": "spoiled"}) is None
    assert version_of(FIRST) != version_of({**FIRST, "ca.crt": SECOND["ca.crt"]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tls.key": SECOND["tls.key"]}, "tls.key is not the key of tls.crt"),
        ({"ca.crt": SECOND["ca.crt"]}, "tls.crt is not signed by a CA of ca.crt"),
        ({"tls.crt": "garbage"}, "tls.crt holds no certificates in PEM"),
        ({"ca.crt": FIRST["tls.key"]}, "ca.crt holds no certificates in PEM"),
        ({"tls.key": FIRST["tls.crt"]}, "tls.key is no private key in PEM"),
    ],
)
def test_what_does_not_go_together_is_told(change: Files, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        inspect({**FIRST, **change})


def test_a_certificate_with_a_key_of_an_unknown_kind_is_told() -> None:
    certificate = x509.load_pem_x509_certificate(FIRST["tls.crt"].encode())
    plain = certificate.public_bytes(serialization.Encoding.DER)
    # The object identifier of elliptic curves, and one that nothing has.
    odd = plain.replace(bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d027f"))
    body = base64.encodebytes(odd).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"
    with pytest.raises(Unfit, match=r"the key of tls\.crt cannot be read: .*2\.127"):
        inspect({**FIRST, "tls.crt": text})


def test_what_nobody_could_accept_is_told() -> None:
    certificate = inspect(FIRST).certificate
    for now, words in (
        (START + 90 * DAY, "ended on 2027-04-15"),
        (START - DAY, "begins only on 2027-01-15"),
    ):
        with pytest.raises(Unfit, match=words):
            check(certificate, DEMANDED, now)
    with pytest.raises(Unfit, match=r"is not for lab-superlink\.team\.svc and 127\.0\.0\.1,"):
        check(replace(certificate, names=("*.example.test", "svc")), DEMANDED, START)
    check(replace(certificate, names=("*.team.svc", "127.0.0.1")), DEMANDED, START)
    with pytest.raises(Unfit, match=r"it lacks ca\.crt and tls\.key"):
        check_files({"tls.crt": "x", "tls.key": " "})


def test_a_chain_lasts_as_long_as_its_shortest_part() -> None:
    """A root, which clients have, a CA between, and a certificate of that."""
    root, middle, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    top = signed(root, root, "root", "root", 1000 * DAY)
    between = signed(middle, root, "middle", "root", 20 * DAY)
    leaf = signed(own, middle, "leaf", "middle", 90 * DAY, authority=False)
    key = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    files = {"ca.crt": top, "tls.crt": leaf + between, "tls.key": key.decode()}
    found = inspect(files)
    assert found.certificate.not_after == START + 20 * DAY
    assert [found.certificate.authority] == [each.identity for each in found.authorities]
    with pytest.raises(Unfit, match="not signed"):
        inspect({**files, "tls.crt": leaf})


def signed(
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    name: str,
    issuer: str,
    life: timedelta,
    authority: bool = True,
) -> str:
    subject, by = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (name, issuer)
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(START + life)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


def test_clients_trust_both_until_the_new_one_is_served() -> None:
    bundle, first = taken(FIRST, {}, START)
    old = first.certificate.identity
    bundle, second = taken(SECOND, bundle, START + DAY, serving=old, known=first)
    assert bundle["ca.crt"] == FIRST["ca.crt"] + SECOND["ca.crt"]
    stored = Stored(bundle=bundle)
    assert drop(stored, second, RolledOut(serving=frozenset([old]))) is None
    new = RolledOut(serving=frozenset([second.certificate.identity]))
    change = drop(stored, second, new)
    assert change
    assert change.files["ca.crt"] == SECOND["ca.crt"]
    assert read_given(change.files) == second
    assert drop(Stored(bundle=change.files), second, new) is None


def test_a_changed_certificate_waits_for_runs_and_not_for_ever() -> None:
    bundle, first = taken(FIRST, {}, START)
    running = (first.certificate.identity, first.trust)
    assert start_with(first, ("", ""), True, None, START)[0] == running, "nothing runs yet"
    later = START + 20 * DAY
    bundle, second = taken(SECOND, bundle, later, serving=running[0], known=first)
    new = (second.certificate.identity, second.trust)

    def started(now: datetime, busy: bool, max_wait: timedelta | None = None) -> tuple[str, str]:
        return start_with(second, running, busy, max_wait, now)[0]

    assert started(later, busy=False) == new
    assert started(later, busy=True) == running
    why = start_with(second, running, True, DAY, later)[1]
    assert (why.reason, why.again) == ("WaitingForRuns", later + DAY)
    assert why.message == (
        "the new certificate of Secret mine waits until no run is under way, "
        "2027-02-05 08:30 UTC at the latest"
    )
    assert started(later + DAY, busy=True, max_wait=DAY) == new
    assert started(later + LONGEST_DELAY - DAY, busy=True) == running
    assert started(later + LONGEST_DELAY, busy=True, max_wait=365 * DAY) == new
    # A third one that comes meanwhile does not begin the wait anew.
    _, third = taken(issued(later), bundle, later + DAY, serving=running[0], known=second)
    assert (third.since, third.until) == (second.since, second.until)
    # One that comes late in the life of the one that is served is needed soon.
    urgent = first.certificate.urgency - DAY
    _, late = taken(issued(urgent), bundle, urgent, serving=running[0], known=first)
    assert late.until == urgent + DAY


def test_the_end_of_a_certificate_is_told_in_time() -> None:
    _, given = taken(FIRST, {}, START)
    running = (given.certificate.identity, given.trust)
    assert start_with(given, running, False, None, START)[1].reason == "Valid"
    why = start_with(given, running, False, None, given.certificate.urgency)[1]
    assert (why.reason, why.message) == (
        "CertificateEnds",
        "the certificate of Secret mine ends on 2027-04-15",
    )


def test_a_federation_that_makes_its_own_again_goes_through_the_usual_order() -> None:
    bundle, _ = taken(FIRST, {}, START)
    stored, taken_steps, _ = settle(
        Stored(bundle=bundle), Wanted(NAMES), "lab", "team", START, RolledOut()
    )
    assert [each.reason for each, _ in taken_steps] == [
        "AuthorityKeyMissing",
        "BundleDiffers",
        "NoCertificate",
        "OldAuthorityUnused",
        "BundleDiffers",
    ]
    assert read_state(stored).faults == {}
    assert read_given(stored.bundle) is None


def test_a_look_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "flower_operator.trust.steps"]
    asked = [{"inspect": FIRST}, {"inspect": {**FIRST, "tls.key": "x"}}]
    text = "".join(f"{json.dumps(each)}\n" for each in asked)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    found, unfit = done.stdout.splitlines()
    assert Inspected.from_json(found) == inspect(FIRST)
    assert json.loads(unfit) == {"unfit": "tls.key is no private key in PEM"}
