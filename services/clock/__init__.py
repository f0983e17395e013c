"""The clock: owns every deadline, judges the stamps of game processes, keeps nothing it could not be told again."""
