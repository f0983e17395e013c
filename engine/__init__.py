"""The rules of Spectacular Bid as values and arithmetic: no clock is read here, nothing is random, nothing waits."""
