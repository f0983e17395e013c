"""Time and evidence: whether anybody could have been charged for a fault of ours, and what would prove it."""

from __future__ import annotations

from k8s.dashboards.panels import Dashboard, Row, panel
from k8s.dashboards.queries import SPAN, mean, quantile, rate, spread

CLOCK = Dashboard(
    uid="spectacular-bid-clock",
    title="Spectacular Bid: clock and evidence",
    text="Is the time that players see the time that decides, and could anything have gone wrong with it?",
    rows=(
        Row(
            "Now",
            (
                panel("Game processes with a clock", "sum(spectacular_bid_game_clock_attached)", kind="stat"),
                panel(
                    "Game processes without one",
                    "count(spectacular_bid_game_clock_attached == 0) or vector(0)",
                    kind="stat",
                    red_from=1,
                ),
                panel(
                    "Contradictions",
                    "sum(spectacular_bid_verdict_mismatches_total) + sum(spectacular_bid_clock_mismatches_total)",
                    kind="stat",
                    red_from=1,
                    text="Since the processes were started. Anything but 0 is a bug.",
                ),
                panel(
                    "Matches held by a bug",
                    "sum(spectacular_bid_held_matches_total)",
                    kind="stat",
                    red_from=1,
                    text="Since the processes were started.",
                ),
                panel(
                    "Time not charged",
                    rate("spectacular_bid_credit_seconds_total") + " / sum(spectacular_bid_live_matches)",
                    kind="stat",
                    unit="percentunit",
                    red_from=0.01,
                    text="Share of the time played.",
                ),
                panel(
                    "Leaders of matchmaking",
                    "sum(spectacular_bid_leading)",
                    kind="stat",
                    red_from=2,
                ),
            ),
            height=4,
            in_a_line=6,
        ),
        Row(
            "How exactly deadlines are kept",
            (
                panel(
                    "The clock's timer is late by",
                    *spread("spectacular_bid_clock_timer_lag_seconds"),
                    unit="s",
                    red_from=0.05,
                    text="The clock's own health. Nobody loses by it: the loss is proven against the deadline.",
                ),
                panel(
                    "A loss on time is stored after",
                    *spread("spectacular_bid_game_timeout_lateness_seconds"),
                    unit="s",
                    red_from=1,
                    text="From the deadline to the commit: timer, question, proof.",
                ),
                panel(
                    "Probe, there and back",
                    *spread("spectacular_bid_clock_probe_seconds"),
                    unit="s",
                    text="Waits up to 250 ms on purpose when time was credited meanwhile.",
                ),
                panel(
                    "From reading a command to its verdict",
                    *spread("spectacular_bid_game_verdict_seconds"),
                    unit="s",
                ),
                panel(
                    "Verdicts",
                    (rate("spectacular_bid_clock_verdicts_total", "result"), "{{result}}"),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Commands heard and not stored yet",
                    ("sum by (instance) (spectacular_bid_game_held_commands)", "{{instance}}"),
                    text="Nobody is charged for this wait; after 60 s of it the match is void.",
                ),
            ),
        ),
        Row(
            "Time in which nobody could be heard",
            (
                panel(
                    "Stalls of the event loop, share of the time",
                    (rate("spectacular_bid_loop_stall_seconds_sum", "job, instance"), "{{job}} {{instance}}"),
                    unit="percentunit",
                    red_from=0.05,
                ),
                panel(
                    "Stretches without an idle instant",
                    *spread("spectacular_bid_game_busy_stretch_seconds"),
                    unit="s",
                    red_from=0.05,
                    text="From 50 ms on they are credited.",
                ),
                panel(
                    "Not provably listening, share of the time",
                    (
                        f"sum by (instance) (deriv(spectacular_bid_game_gap_seconds[{SPAN}]))",
                        "{{instance}}",
                    ),
                    unit="percentunit",
                ),
                panel(
                    "Time not charged, by cause",
                    (rate("spectacular_bid_credit_seconds_total", "cause"), "{{cause}}"),
                    (rate("spectacular_bid_clock_credit_seconds_total"), "as the clock counts"),
                    unit="s",
                    text="Seconds a second, over all matches.",
                ),
                panel(
                    "Given up, by the clock's reason",
                    (rate("spectacular_bid_clock_voids_total", "reason"), "{{reason}}"),
                    unit="ops",
                ),
                panel(
                    "Lost on time near an incident",
                    (rate("spectacular_bid_forfeits_total", where='incident="near"'), "near"),
                    unit="ops",
                ),
            ),
        ),
        Row(
            "Clocks against each other",
            (
                panel(
                    "How exactly the clocks are compared",
                    ("max by (instance) (spectacular_bid_clock_offset_width_seconds)", "{{instance}}"),
                    unit="s",
                    red_from=0.1,
                    text="A disruption smaller than this is not seen.",
                ),
                panel(
                    "Clocks that moved",
                    (rate("spectacular_bid_clock_disruptions_total", "culprit"), "{{culprit}}"),
                    unit="ops",
                ),
                panel(
                    "Contradictions",
                    (rate("spectacular_bid_verdict_mismatches_total", "instance"), "{{instance}}"),
                    (rate("spectacular_bid_clock_mismatches_total", "instance"), "{{instance}}"),
                    unit="ops",
                ),
            ),
        ),
        Row(
            "Sessions",
            (
                panel(
                    "Sessions at each clock",
                    ("sum by (instance) (spectacular_bid_clock_sessions)", "{{instance}}"),
                ),
                panel(
                    "Matches at each clock",
                    ("sum by (instance) (spectacular_bid_clock_matches)", "{{instance}}"),
                ),
                panel(
                    "Sessions that began and ended",
                    (rate("spectacular_bid_game_clock_sessions_total", "instance"), "{{instance}} accepted"),
                    (rate("spectacular_bid_clock_hangups_total", "instance"), "{{instance}} hung up"),
                    (rate("spectacular_bid_clock_stale_total", "instance"), "{{instance}} stale"),
                    unit="ops",
                ),
                panel(
                    "Streams that look on",
                    ("sum by (instance) (spectacular_bid_clock_watchers)", "{{instance}}"),
                    (rate("spectacular_bid_clock_watchers_dropped_total"), "dropped"),
                    (rate("spectacular_bid_clock_watchers_missed_total"), "news missed"),
                ),
            ),
            in_a_line=4,
        ),
        Row(
            "Who owns the matches",
            (
                panel(
                    "Age of the lease",
                    ("max by (instance) (spectacular_bid_lease_age_seconds)", "{{instance}}"),
                    unit="s",
                    red_from=6,
                    text="Renewed every 2 s by default, gone after 8 s.",
                ),
                panel(
                    "Renewals that failed",
                    (rate("spectacular_bid_lease_renewal_failures_total", "instance"), "{{instance}}"),
                    unit="ops",
                ),
                panel(
                    "Matches taken up",
                    (rate("spectacular_bid_matches_taken_up_total", "kind"), "{{kind}}"),
                    unit="ops",
                    text="`takeover`: a process was gone. `handoff`: it left in order.",
                ),
                panel(
                    "Pause at a hand-over",
                    (mean("spectacular_bid_handoff_pause_seconds"), "mean"),
                    (quantile(0.99, "spectacular_bid_handoff_pause_seconds"), "p99"),
                    unit="s",
                ),
                panel(
                    "Who leads matchmaking",
                    ("sum by (instance) (spectacular_bid_leading)", "{{instance}}"),
                ),
                panel(
                    "The lead was lost",
                    (rate("spectacular_bid_lead_lost_total", "instance"), "{{instance}}"),
                    unit="ops",
                ),
            ),
        ),
    ),
)
