"""The canary: two players of our own that play a short match now and then, and tell what players would have felt."""
