"""What flwr's Kubernetes executor makes of a task, and what it can be told to."""

import re

# A task is a pod of this name and, until the executor clears both away, a Secret with its token.
POD_PREFIX = "flwr-taskexecutor-"

# The executor refuses its whole config for one of these.
FORBIDDEN_VARIABLES = {"FLWR_MODEL_API_KEY", "BRAVE_API_KEY", "TAVILY_API_KEY", "EXA_API_KEY"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def secret_of(pod: str) -> str:
    """The name of the Secret with the token of the task in this pod."""
    return f"{pod}-appio"


def takes_variable(name: str) -> bool:
    """Whether the executor gives a variable of this name to tasks."""
    return name not in FORBIDDEN_VARIABLES and _VARIABLE.fullmatch(name) is not None
