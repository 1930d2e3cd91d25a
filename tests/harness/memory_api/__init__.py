"""An in-memory Kubernetes API server, its client, and the controllers of a small cluster.

`tests/harness/api_contract.py` states what the server promises, and the same scenarios run
against a real kube-apiserver.
"""

from .client import MemoryClient
from .controllers import Controllers
from .requests import Fault, Request
from .server import MemoryApiServer

__all__ = ["Controllers", "Fault", "MemoryApiServer", "MemoryClient", "Request"]
