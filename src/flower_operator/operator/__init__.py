"""The operator: reconciles every Federation of a cluster."""
