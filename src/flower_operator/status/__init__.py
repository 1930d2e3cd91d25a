"""From what is observed to what a Federation's status says: pure, the clock passed in."""
