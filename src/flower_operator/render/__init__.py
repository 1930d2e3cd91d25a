"""From a Federation to the Kubernetes objects that run it: pure, the same bytes every time."""

from .facts import Facts
from .plan import Plan, render

__all__ = ["Facts", "Plan", "render"]
