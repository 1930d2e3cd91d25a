"""Federations over many clusters: the objects of Open Cluster Management, and who places them."""
