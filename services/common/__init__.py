"""What every service process shares: settings, logs, metrics, identity, errors, and the process around a server."""
