"""`flower-operator controller`: the operator itself."""

from __future__ import annotations

import click

from ..flower.commands import ENVOY_IMAGE
from .terminal import printable

ADDRESS = "[HOST]:PORT"


@click.command()
@click.option(
    "--namespaces",
    default="",
    metavar="A,B",
    help="Namespaces to look after; all if not given.",
)
@click.option(
    "--leader-election-namespace",
    metavar="NAMESPACE",
    help="Where the Lease is; the operator's own namespace if not given.",
)
@click.option(
    "--metrics-bind-address",
    default=":8443",
    show_default=True,
    metavar=ADDRESS,
    help="Metrics over HTTPS; 0 for none.",
)
@click.option(
    "--health-probe-bind-address",
    default=":8081",
    show_default=True,
    metavar=ADDRESS,
    help="/healthz and /readyz over HTTP; 0 for none.",
)
@click.option(
    "--openshift",
    type=click.Choice(["auto", "true", "false"]),
    default="auto",
    show_default=True,
    help="Whether the cluster gives pods their users; auto asks it.",
)
@click.option(
    "--fleet",
    is_flag=True,
    help="Run pools with placement on other clusters; needs Open Cluster Management.",
)
@click.option(
    "--agent-image",
    metavar="IMAGE",
    help="The operator's own image, for its agents on other clusters.",
)
@click.option(
    "--gateway-image",
    default=ENVOY_IMAGE,
    show_default=True,
    metavar="IMAGE",
    help="Image of Envoy, for a SuperLink whose gateway names none.",
)
@click.option(
    "--task-executor",
    is_flag=True,
    help="Allow executor: kubernetes; needs the ClusterRole flower-operator-task-executor.",
)
@click.option(
    "--pod-security",
    type=click.Choice(["restricted"]),
    help="Refuse Federations whose pods are beyond this Pod Security Standard.",
)
@click.option(
    "--issuers",
    default="",
    metavar="KIND/NAME,...",
    help="Issuers that spec.tls.issuerRef may name; all if not given.",
)
@click.option(
    "--dns-suffixes",
    default="",
    metavar="A,B",
    help="Names, and names below them, that issuers may be asked for; all if not given.",
)
@click.option(
    "--annotation-prefixes",
    default="",
    metavar="A,B",
    help="What annotations of the SuperLink's Service may begin with; anything if not given.",
)
def controller(
    namespaces: str,
    leader_election_namespace: str | None,
    metrics_bind_address: str,
    health_probe_bind_address: str,
    openshift: str,
    fleet: bool,
    agent_image: str | None,
    gateway_image: str,
    task_executor: bool,
    pod_security: str | None,
    issuers: str,
    dns_suffixes: str,
    annotation_prefixes: str,
) -> None:
    """Reconcile the Federations of a cluster: in a pod, or by the current kubeconfig."""
    import asyncio

    from ..kube.connection import ConnectionFault, connect
    from ..kube.errors import NotLeader
    from ..operator.controller import Options, run
    from ..operator.logs import configure_logging
    from ..render.admin_limits import Limits

    try:
        connection = connect()
    except ConnectionFault as error:
        raise click.ClickException(printable(str(error))) from None
    options = Options(
        namespaces=_items(namespaces),
        lease_namespace=leader_election_namespace or connection.namespace,
        health_address=_address("--health-probe-bind-address", health_probe_bind_address),
        metrics_address=_address("--metrics-bind-address", metrics_bind_address),
        locate=(lambda address: address) if connection.in_cluster else None,
        namespace=connection.namespace,
        openshift=None if openshift == "auto" else openshift == "true",
        fleet=fleet,
        agent_image=agent_image,
        gateway_image=gateway_image,
        limits=Limits(
            task_executor=task_executor,
            restricted=pod_security == "restricted",
            issuers=_items(issuers),
            dns_suffixes=_items(dns_suffixes),
            annotation_prefixes=_items(annotation_prefixes),
        ),
    )
    configure_logging()
    try:
        asyncio.run(run(connection, options))
    except NotLeader:
        raise click.ClickException(
            "the lease could not be kept: another replica may lead now"
        ) from None
    except OSError as error:
        hint = "--metrics-bind-address and --health-probe-bind-address name other addresses"
        raise click.ClickException(f"{error}; {hint}") from None


def _items(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _address(option: str, value: str) -> str | None:
    if value == "0":
        return None
    _, colon, port = value.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(
            f"{value!r} is no [HOST]:PORT, such as :8081, nor 0", param_hint=option
        )
    return value
