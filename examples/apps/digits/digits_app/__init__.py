"""A Flower app: handwritten digits, learnt by nodes that each hold only a few of the ten."""
