"""`flower-operator`, which finds every SuperLink at one address, as it does inside a cluster.

python -m bench.polled_operator HOST:PORT controller [FLAG...]
"""

import sys
from typing import Any
from unittest.mock import patch

from flower_operator.cli.main import main
from flower_operator.operator import controller

address = sys.argv.pop(1)
Options = controller.Options


def options(**fields: Any) -> controller.Options:
    return Options(**fields | {"locate": lambda service: address})


with patch.object(controller, "Options", options):
    main()
