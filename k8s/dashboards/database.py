"""The database as the services meet it. What PostgreSQL says of itself is on its operator's own dashboard."""

from __future__ import annotations

from k8s.dashboards.panels import Dashboard, Row, panel
from k8s.dashboards.queries import mean, rate, spread

DATABASE = Dashboard(
    uid="spectacular-bid-database",
    title="Spectacular Bid: database",
    text="Commits, connections and what waits for them, as the services meet PostgreSQL.",
    rows=(
        Row(
            "Now",
            (
                panel(
                    "Processes that reach the database",
                    'sum(spectacular_bid_readiness_condition{condition="database"})',
                    kind="stat",
                ),
                panel(
                    "Processes that do not",
                    'count(spectacular_bid_readiness_condition{condition="database"} == 0) or vector(0)',
                    kind="stat",
                    red_from=1,
                ),
                panel(
                    "Commits repeated",
                    rate("spectacular_bid_commit_retries_total"),
                    kind="stat",
                    unit="ops",
                    red_from=0.05,
                ),
                panel(
                    "Commands heard and not stored yet",
                    "sum(spectacular_bid_game_held_commands)",
                    kind="stat",
                ),
            ),
            height=4,
            in_a_line=4,
        ),
        Row(
            "Commits",
            (
                panel(
                    "A group commit takes", *spread("spectacular_bid_commit_seconds"), unit="s", red_from=0.05
                ),
                panel(
                    "Group commits",
                    (rate("spectacular_bid_commit_seconds_count", "instance"), "{{instance}}"),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Rulings in one",
                    (mean("spectacular_bid_commit_rulings", "instance"), "{{instance}}"),
                    text="Grows when the disk is slow or much goes on: those that wait share a commit.",
                ),
                panel(
                    "Commits repeated",
                    (rate("spectacular_bid_commit_retries_total", "instance"), "{{instance}}"),
                    unit="ops",
                ),
                panel(
                    "Age of the lease",
                    ("max by (instance) (spectacular_bid_lease_age_seconds)", "{{instance}}"),
                    unit="s",
                    red_from=6,
                ),
                panel(
                    "Renewals that failed",
                    (rate("spectacular_bid_lease_renewal_failures_total", "instance"), "{{instance}}"),
                    unit="ops",
                ),
            ),
        ),
        Row(
            "Connections",
            (
                panel(
                    "Busy",
                    (
                        'sum by (job, instance) (spectacular_bid_database_pool_connections{state="busy"})',
                        "{{job}} {{instance}}",
                    ),
                ),
                panel(
                    "Idle",
                    (
                        'sum by (job, instance) (spectacular_bid_database_pool_connections{state="idle"})',
                        "{{job}} {{instance}}",
                    ),
                ),
                panel(
                    "Waiting for one",
                    *spread("spectacular_bid_database_pool_wait_seconds"),
                    unit="s",
                    red_from=0.05,
                    text="Raise SPECTACULAR_BID_DATABASE_POOL_SIZE when it waits while the database is idle.",
                ),
            ),
        ),
        Row(
            "What waits for it",
            (
                panel(
                    "A round of pairing, with its transactions",
                    *spread("spectacular_bid_wave_seconds"),
                    unit="s",
                ),
                panel(
                    "Rating decisions after",
                    *spread("spectacular_bid_rating_delay_seconds"),
                    unit="s",
                ),
                panel(
                    "Calls that were answered UNAVAILABLE",
                    (
                        rate("grpc_server_handled_total", "job", 'grpc_code="UNAVAILABLE"'),
                        "{{job}}",
                    ),
                    unit="ops",
                ),
            ),
        ),
    ),
)
