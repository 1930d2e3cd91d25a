"""What flwr itself is, release by release; nothing of Kubernetes."""
