"""The command line. Imports are inside the commands, so that help is instant."""

from .main import main

__all__ = ["main"]
