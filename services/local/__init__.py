"""The whole stack on one machine: PostgreSQL, the three services, a house bot, and two bots that show a match."""
