"""Kubernetes as the operator sees it: connection, requests, cache, apply, Lease."""
