"""A Flower app that tests run: small, with no dependency but flwr."""
