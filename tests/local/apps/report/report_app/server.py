"""Sends a vector round, averages what comes back, prints it and the clients' reports."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    if config["fail"]:
        raise RuntimeError("told to fail")
    model = np.zeros(3)
    reports: dict[str, object] = {}
    for number in range(int(config["rounds"])):
        while len(list(grid.get_node_ids())) < int(config["nodes"]):
            time.sleep(0.2)
        content = RecordDict(
            {
                "model": ArrayRecord([model]),
                "settings": ConfigRecord({"pause": float(config["pause"])}),
            }
        )
        questions = [
            Message(content=content, message_type="train", dst_node_id=node)
            for node in grid.get_node_ids()
        ]
        answers = [answer for answer in grid.send_and_receive(questions) if answer.has_content()]
        models = [answer.content["model"].to_numpy_ndarrays()[0] for answer in answers]
        model = np.mean(models, axis=0) if models else model
        for answer in answers:
            text = str(answer.content["report"]["node-config"])
            reports[text] = json.loads(text)
        tell(f"ROUND {number + 1} of {len(answers)} nodes")
    result = {"model": model.tolist(), "reports": list(reports.values())}
    tell(f"RESULT {json.dumps(result)}")


def tell(text: str) -> None:
    """Print, for whoever streams the log, and write, for whoever looks when that broke."""
    print(text, flush=True)
    with Path("report.log").open("a") as file:
        file.write(f"{text}\n")
