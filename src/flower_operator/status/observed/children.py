"""Objects of ours that only have to be as they were rendered."""

import msgspec
from msgspec import Struct

from .metadata import Metadata, unversioned


class Child(Struct):
    """An object of ours that only has to be as it was rendered."""

    metadata: Metadata
    content: bytes
    """Its spec, data or what else it has, as JSON: read when called for, and small until then."""


class ChildForm(Struct):
    """A ConfigMap."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    data: msgspec.Raw = msgspec.Raw(b"")


def child_of(form: ChildForm) -> Child:
    return Child(unversioned(form.metadata), bytes(form.data))


class CountedForm(Struct):
    """A NetworkPolicy: its generation tells whether it has changed."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


def counted_of(form: CountedForm) -> Child:
    return Child(unversioned(form.metadata), b"")


class ServiceAccountForm(Struct, rename="camel"):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    automount_service_account_token: bool | None = None
    image_pull_secrets: list[dict[str, str]] | None = None


def service_account_of(form: ServiceAccountForm) -> Child:
    content = {
        "automountServiceAccountToken": form.automount_service_account_token,
        "imagePullSecrets": form.image_pull_secrets,
    }
    return Child(unversioned(form.metadata), msgspec.json.encode(content))


class RoleBindingForm(Struct, rename="camel"):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    role_ref: dict[str, str] | None = None
    subjects: list[dict[str, str]] | None = None


def role_binding_of(form: RoleBindingForm) -> Child:
    content = {"roleRef": form.role_ref, "subjects": form.subjects}
    return Child(unversioned(form.metadata), msgspec.json.encode(content))
