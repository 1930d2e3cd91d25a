"""`flower-operator agent`: what the addon runs on a managed cluster, for what must not travel."""

import click

from .terminal import printable


@click.command(hidden=True)
@click.option("--namespace", required=True, help="Where the pool is.")
@click.option("--federation", required=True, help="The Federation, of the hub.")
@click.option("--pool", required=True, help="The pool of it that is placed here.")
@click.option("--introduce", is_flag=True, help="Its SuperExecs are in pods of their own.")
def agent(namespace: str, federation: str, pool: str, introduce: bool) -> None:
    """Make the keys of a pool's SuperNodes, on the cluster where these run."""
    import asyncio

    from ..fleet.agent import Agent
    from ..kube.client import Client
    from ..kube.connection import ConnectionFault, connect
    from ..operator.logs import configure_logging

    try:
        connection = connect()
    except ConnectionFault as error:
        raise click.ClickException(printable(str(error))) from None
    configure_logging()

    async def run() -> None:
        async with Client(connection, "flower-operator") as client:
            await Agent(client, namespace, federation, pool, introduce=introduce).run()

    asyncio.run(run())
