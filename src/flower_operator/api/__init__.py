"""The Federation API: its fields, defaults and rules, and the CRD that follows from them."""
