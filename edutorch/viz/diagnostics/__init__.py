"""What is wrong with a network or a loop, in plain sentences."""
