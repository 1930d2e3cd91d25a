"""What the server does: average the nodes' models, and say how good the average is."""

from logging import INFO

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
        fraction_evaluate=0.0,  # the test examples are here, no node needs to be asked
        min_train_nodes=nodes,
        min_available_nodes=nodes,
        train_metrics_aggr_fn=side_by_side,
    )
    result = strategy.start(
        grid, ArrayRecord(list(untrained())), num_rounds=rounds, evaluate_fn=evaluate
    )
    report(result.train_metrics_clientapp[rounds])


def side_by_side(replies: list[RecordDict], _weighted_by: str) -> MetricRecord:
    """Every node's metrics as lists, in the order of their parts."""
    metrics = [next(iter(reply.metric_records.values())) for reply in replies]
    metrics.sort(key=lambda metric: metric["partition-id"])
    return MetricRecord({name: [metric[name] for metric in metrics] for name in metrics[0]})


def report(nodes: MetricRecord) -> None:
    """What each node would have reached alone, after as many epochs as in all rounds."""
    for part, examples, alone in zip(
        nodes["partition-id"], nodes["num-examples"], nodes["alone"], strict=True
    ):
        log(INFO, "NODE %d examples %d accuracy %.4f", part, examples, alone)
    accuracies = nodes["alone"]
    log(INFO, "SINGLE mean %.4f best %.4f", sum(accuracies) / len(accuracies), max(accuracies))
