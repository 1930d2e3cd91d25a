"""How large a Federation may be.

Far more than a real one needs, and so little that rendering any of them takes a fraction of a
second: the operator renders the Federations of all tenants, one after the other.
"""

MAX_SUPERNODES = 10_000
"""Of all pools together."""
MAX_ITEMS = 256
"""Entries of a list or a map."""
MAX_LINE = 1_024
"""Characters of a name, an image and the like."""
MAX_STRING = 32_768
"""Characters of any other string, such as the value of a variable."""
MAX_PEM = 65_536
"""Characters of the certificates of a CA."""
MAX_LABEL = 63
"""Characters of the name of a volume or a claim, which is a DNS label."""
MAX_CLAIMS = 32
"""Volume claim templates of a pool or the SuperLink."""
MAX_NUMBER = 64
"""Characters of a number with a unit."""
MAX_SPEC_BYTES = 131_072
"""A whole spec as JSON, without fields that have their default."""
MAX_STORED_BYTES = 1_048_576
"""The same as the API server stores it: with defaults, and `<` as `\\u003c`."""
