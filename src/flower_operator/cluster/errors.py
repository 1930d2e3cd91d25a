"""What a person is told when the cluster does not do as asked."""

from ..kube.errors import ApiError, Unreachable


class ClusterError(RuntimeError):
    """What a user asked for cannot be done on the cluster; the text says why and what to do."""


def explain(error: ApiError | Unreachable, server: str) -> str:
    """One line for a person: whose fault it is, and what to do where that is known."""
    words = " ".join(str(error).split())
    if isinstance(error, Unreachable):
        return f"the cluster at {server} cannot be reached: {words}"
    if error.code == 401:
        return f"the cluster at {server} does not know the kubeconfig's user: {words}"
    if is_unknown_kind(error):
        return (
            f"the cluster at {server} has no Federations: their CustomResourceDefinition is "
            "missing; install the operator, or run: flower-operator crd | kubectl apply -f -"
        )
    # A refusal (403) names user, verb and resource in the server's own words.
    return f"the cluster says: {words}"


def is_unknown_kind(error: ApiError) -> bool:
    """Whether it is the kind that is not there: for an object the server gives a reason."""
    return error.code == 404 and not error.reason
