"""The game service: owns live matches, carries out commands, tells what happened."""
