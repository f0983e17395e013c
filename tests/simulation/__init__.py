"""The deterministic simulation: the real game, clock and storage code in one process under virtual time.

What is simulated is what lies around that code: the kernel's clocks, the scheduler of the host, the network, the rows
of the database, the players. One seed is one world; the same seed is the same world, to the nanosecond.
"""
