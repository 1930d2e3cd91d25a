"""CA, certificates, keys and secrets: what they are, and when to issue and rotate them."""
