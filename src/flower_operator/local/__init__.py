"""Flower on this machine: real flwr processes, no container, no cluster."""
