"""References to variables in arguments, expanded as a kubelet does."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the variable's value, `$$` a dollar sign; the rest stays as it is."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)
