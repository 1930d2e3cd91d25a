"""Asking the API server who a caller is and what that caller may do."""

from collections.abc import Mapping
from typing import Any

from .resources import ACCESS_REVIEW, OWN_ACCESS_REVIEW, TOKEN_REVIEW


def token_review(token: str) -> dict[str, Any]:
    return {
        "apiVersion": TOKEN_REVIEW.api_version,
        "kind": TOKEN_REVIEW.kind,
        "spec": {"token": token},
    }


def user_of(review: Mapping[str, Any]) -> dict[str, Any] | None:
    """Whose token it is, if it is anybody's."""
    status = review.get("status", {})
    user: dict[str, Any] | None = status.get("user") if status.get("authenticated") else None
    return user


def access_review(user: Mapping[str, Any], verb: str, path: str) -> dict[str, Any]:
    return {
        "apiVersion": ACCESS_REVIEW.api_version,
        "kind": ACCESS_REVIEW.kind,
        "spec": {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "nonResourceAttributes": {"verb": verb, "path": path},
        },
    }


def own_access_review(
    verb: str, group: str, resource: str, subresource: str, namespace: str
) -> dict[str, Any]:
    """May I?"""
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    if subresource:
        attributes["subresource"] = subresource
    return {
        "apiVersion": OWN_ACCESS_REVIEW.api_version,
        "kind": OWN_ACCESS_REVIEW.kind,
        "spec": {"resourceAttributes": attributes},
    }


def allowed(review: Mapping[str, Any]) -> bool:
    return bool(review.get("status", {}).get("allowed"))
