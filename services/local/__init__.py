"""The whole stack on one machine: PostgreSQL, the three services, the house bots, and two bots that show a match."""
