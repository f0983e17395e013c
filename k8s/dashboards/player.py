"""What players feel: answers, matches, waiting, ratings, and the canary that plays as they do."""

from __future__ import annotations

from k8s.dashboards.panels import Dashboard, Row, panel
from k8s.dashboards.queries import mean, quantile, rate, spread

COMMANDS = "spectacular_bid_commands_total"
NOT_FINAL = 'result=~"unavailable|failed"'

PLAYER = Dashboard(
    uid="spectacular-bid-player",
    title="Spectacular Bid: what players feel",
    text="Start here. Red means that players feel it; the alerts that fire are marked on the lines.",
    rows=(
        Row(
            "Now",
            (
                panel("Live matches", "sum(spectacular_bid_live_matches)", kind="stat"),
                panel("Players waiting", "sum(spectacular_bid_players_waiting)", kind="stat"),
                panel(
                    "Commands without a final answer",
                    f"{rate(COMMANDS, where=NOT_FINAL)} / {rate(COMMANDS)}",
                    kind="stat",
                    unit="percentunit",
                    red_from=0.001,
                    text="The objective allows 0.1 %.",
                ),
                panel(
                    "99 of 100 commands within",
                    quantile(0.99, "spectacular_bid_command_seconds"),
                    kind="stat",
                    unit="s",
                    red_from=0.25,
                    text="From the stamp until everybody was told. The objective allows 250 ms.",
                ),
                panel(
                    "Last success of the canary",
                    "time() - max(spectacular_bid_canary_last_success_timestamp_seconds)",
                    kind="stat",
                    unit="s",
                    red_from=180,
                    text="It plays every minute.",
                ),
                panel(
                    "Pages that fire",
                    'count(ALERTS{alertstate="firing", severity="page"}) or vector(0)',
                    kind="stat",
                    red_from=1,
                ),
            ),
            height=4,
            in_a_line=6,
        ),
        Row(
            "Error budgets",
            (
                panel(
                    "Commands without a final answer: pace of the budget",
                    ("spectacular_bid:command_errors:ratio_rate5m / 0.001", "5 min"),
                    ("spectacular_bid:command_errors:ratio_rate1h / 0.001", "1 h"),
                    ("spectacular_bid:command_errors:ratio_rate6h / 0.001", "6 h"),
                    ("spectacular_bid:command_errors:ratio_rate3d / 0.001", "3 d"),
                    red_from=14.4,
                    text="1 would just use up what 30 days allow. Over 14.4 for an hour pages.",
                ),
                panel(
                    "Slow commands: pace of the budget",
                    ("spectacular_bid:command_slow:ratio_rate5m / 0.01", "5 min"),
                    ("spectacular_bid:command_slow:ratio_rate1h / 0.01", "1 h"),
                    ("spectacular_bid:command_slow:ratio_rate6h / 0.01", "6 h"),
                    ("spectacular_bid:command_slow:ratio_rate3d / 0.01", "3 d"),
                    red_from=14.4,
                ),
                panel(
                    "Void matches: pace of the budget",
                    ("spectacular_bid:voids:ratio_rate5m / 0.001", "5 min"),
                    ("spectacular_bid:voids:ratio_rate1h / 0.001", "1 h"),
                    ("spectacular_bid:voids:ratio_rate6h / 0.001", "6 h"),
                    ("spectacular_bid:voids:ratio_rate3d / 0.001", "3 d"),
                    red_from=14.4,
                    text="Without those that operators declared.",
                ),
            ),
        ),
        Row(
            "Commands",
            (
                panel("Commands", (rate(COMMANDS, "result"), "{{result}}"), unit="ops", stacked=True),
                panel(
                    "From the stamp until everybody was told",
                    *spread("spectacular_bid_command_seconds"),
                    unit="s",
                    red_from=0.25,
                ),
                panel(
                    "What a command waits for, on average",
                    (mean("spectacular_bid_command_stage_seconds", "stage"), "{{stage}}"),
                    unit="s",
                    stacked=True,
                    text="In the inbox of its match, for the clock, for the disk, for being told.",
                ),
                panel(
                    "Refusals",
                    (rate("spectacular_bid_refusals_total", "reason") + " > 0", "{{reason}}"),
                    unit="ops",
                    text="A new client with a bug shows here first.",
                ),
                panel("Streams", ("sum by (grpc_method) (spectacular_bid_streams) > 0", "{{grpc_method}}")),
                panel(
                    "Readers who do not keep up",
                    (rate("spectacular_bid_slow_consumers_total", "grpc_method"), "{{grpc_method}}"),
                    unit="ops",
                ),
            ),
        ),
        Row(
            "Matches",
            (
                panel(
                    "Live matches",
                    ("sum by (phase) (spectacular_bid_live_matches)", "{{phase}}"),
                    stacked=True,
                    text="`held`: stopped by a bug, void within a minute.",
                ),
                panel(
                    "Matches that ended",
                    (
                        rate("spectacular_bid_matches_finished_total", "outcome, rated"),
                        "{{outcome}}, rated {{rated}}",
                    ),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Void, by cause",
                    (rate("spectacular_bid_voids_total", "reason"), "{{reason}}"),
                    unit="ops",
                ),
                panel(
                    "Lost on time",
                    (rate("spectacular_bid_forfeits_total", "incident"), "incident: {{incident}}"),
                    unit="ops",
                    text="`near`: within 60 s of an incident. They should not bunch.",
                ),
                panel(
                    "Held by a bug",
                    (rate("spectacular_bid_held_matches_total", "instance"), "{{instance}}"),
                    unit="ops",
                ),
                panel(
                    "Pause at a hand-over",
                    *spread("spectacular_bid_handoff_pause_seconds"),
                    unit="s",
                    text="From the last instant of the old owner to the first of the new one.",
                ),
            ),
        ),
        Row(
            "Matchmaking",
            (
                panel("Players waiting", ("sum by (pool) (spectacular_bid_players_waiting)", "{{pool}}")),
                panel(
                    "Longest wait of an open seek",
                    ("max by (pool) (spectacular_bid_seek_oldest_seconds)", "{{pool}}"),
                    unit="s",
                    red_from=120,
                ),
                panel(
                    "Waiting time of those who were paired",
                    *spread("spectacular_bid_seek_wait_seconds"),
                    unit="s",
                ),
                panel(
                    "How seeks end",
                    (rate("spectacular_bid_seeks_total", "end"), "{{end}}"),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Matches made",
                    (rate("spectacular_bid_matches_made_total", "pool"), "{{pool}}"),
                    (rate("spectacular_bid_pairings_undone_total", "why"), "undone: {{why}}"),
                    unit="ops",
                ),
                panel(
                    "Distance of the ratings",
                    *spread("spectacular_bid_match_rating_gap"),
                    text="Rating points between those who were paired.",
                ),
            ),
        ),
        Row(
            "Rating",
            (
                panel(
                    "From the end to the decision",
                    *spread("spectacular_bid_rating_delay_seconds"),
                    unit="s",
                ),
                panel(
                    "Decisions",
                    (rate("spectacular_bid_rating_decisions_total", "reason"), "{{reason}}"),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Waiting",
                    ("max(spectacular_bid_rating_undecided)", "without a decision"),
                    ("max(spectacular_bid_rating_held)", "held for a person"),
                ),
            ),
        ),
        Row(
            "The canary",
            (
                panel(
                    "What it felt",
                    (mean("spectacular_bid_canary_step_seconds", "step"), "{{step}}"),
                    unit="s",
                    red_from=0.5,
                ),
                panel(
                    "Its matches",
                    (rate("spectacular_bid_canary_runs_total", "result"), "{{result}}"),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Where it failed",
                    (rate("spectacular_bid_canary_failures_total", "step"), "{{step}}"),
                    unit="ops",
                ),
            ),
        ),
    ),
)
