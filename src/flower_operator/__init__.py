"""flower-operator: runs Flower federations from one Federation manifest."""

__version__ = "0.1.0"
