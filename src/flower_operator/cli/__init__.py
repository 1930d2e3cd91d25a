"""The command line. Imports are inside the commands, so that help is instant."""

from .main import main
from .plugin import main as plugin

__all__ = ["main", "plugin"]
