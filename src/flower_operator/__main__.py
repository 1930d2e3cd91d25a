"""`python -m flower_operator` is the flower-operator command."""

from .cli import main

main()
