"""Runs submitted with a release's own `flwr`, wherever the SuperLink is."""
