"""What the server does: average the nodes' models, and say how good the average is."""

from logging import INFO
from typing import cast

from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits_app.task import Model, accuracy, load, untrained

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    rounds = int(context.run_config["num-server-rounds"])
    nodes = int(context.run_config["min-nodes"])
    _, test = load()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        reached = accuracy(Model(*arrays.to_numpy_ndarrays()), test)
        log(INFO, "ROUND %d accuracy %.4f", server_round, reached)
        return MetricRecord({"accuracy": reached})

    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,  # the test examples are here: no node needs to be asked
        min_train_nodes=nodes,
        min_available_nodes=nodes,
        train_metrics_aggr_fn=compare_nodes,
    )
    start = ArrayRecord(list(untrained()))
    result = strategy.start(grid, start, num_rounds=rounds, evaluate_fn=evaluate)
    single = result.train_metrics_clientapp[rounds]
    log(INFO, "SINGLE mean %.4f best %.4f", single["mean"], single["best"])


def compare_nodes(replies: list[RecordDict], _weighted_by: str) -> MetricRecord:
    """How good the nodes would be without each other, after as many epochs."""
    nodes = [reply.metric_records["metrics"] for reply in replies]
    for node in sorted(nodes, key=lambda node: cast("int", node["partition-id"])):
        log(
            INFO,
            "NODE %d examples %d alone %.4f",
            node["partition-id"],
            node["num-examples"],
            node["alone"],
        )
    alone = [cast("float", node["alone"]) for node in nodes]
    return MetricRecord({"mean": sum(alone) / len(alone), "best": max(alone)})
