"""What a node does: train the model it gets on its own part of the data."""

from typing import cast

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import Model, accuracy, load, part_of, train, untrained

app = ClientApp()


@app.train()
def train_on_own_part(message: Message, context: Context) -> Message:
    part = int(context.node_config["partition-id"])
    parts = int(context.node_config["num-partitions"])
    everything, test = load()
    own = part_of(everything, part, parts)

    epochs = int(context.run_config["local-epochs"])
    rate = float(context.run_config["learning-rate"])
    server_round = cast("int", message.content.config_records["config"]["server-round"])
    received = Model(*message.content.array_records["arrays"].to_numpy_ndarrays())
    model = train(received, own, epochs=epochs, rate=rate, seed=server_round)

    # For comparison: where this node would be by now without the others.
    alone = train(untrained(), own, epochs=epochs * server_round, rate=rate, seed=0)

    metrics = MetricRecord()
    metrics["partition-id"] = part
    metrics["num-examples"] = len(own.digits)  # FedAvg's weight of this node
    metrics["alone"] = accuracy(alone, test)
    reply = RecordDict({"arrays": ArrayRecord(list(model)), "metrics": metrics})
    return Message(reply, reply_to=message)
