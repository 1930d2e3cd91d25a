"""Calls to flwr's APIs as anyone can make them: by the Python of a Flower release.

python call_apis.py CA < calls.json

Each call is [HOST:PORT, PATH]; the answer to an empty message is a gRPC status by name, or the HTTP
status. Paths are sent as they are.
"""

import http.client
import json
import ssl
import sys
from pathlib import Path

import grpc  # type: ignore[import-untyped]


def call_grpc(address: str, path: str, authority: bytes) -> str:
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(authority)) as channel:
        try:
            channel.unary_unary(path)(b"", timeout=20)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"


def call_http(address: str, path: str, authority: str) -> str:
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection(address, context=context, timeout=20)
    try:
        connection.request("POST", path, b"", {"content-type": "application/protobuf"})
        return str(connection.getresponse().status)
    finally:
        connection.close()


def main(authority: str) -> None:
    content = Path(authority).read_bytes()
    answers = [
        call_grpc(address, path, content)
        if path.startswith("/flwr.proto.")
        else call_http(address, path, authority)
        for address, path in json.load(sys.stdin)
    ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
