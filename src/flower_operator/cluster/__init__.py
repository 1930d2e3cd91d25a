"""A person's hold on the Federations of a cluster: find, change, follow, forward, examine."""
