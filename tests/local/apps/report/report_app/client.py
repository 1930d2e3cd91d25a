"""Adds a step to the model it is sent and reports its node config."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    with Path("train.log").open("a") as file:
        file.write("training\n")
    time.sleep(message.content["settings"]["pause"])
    (model,) = message.content["model"].to_numpy_ndarrays()
    step = np.full_like(model, float(context.node_config.get("partition-id", 0)))
    content = RecordDict(
        {
            "model": ArrayRecord([model + step]),
            "report": ConfigRecord({"node-config": json.dumps(dict(context.node_config))}),
        }
    )
    return Message(content=content, reply_to=message)
