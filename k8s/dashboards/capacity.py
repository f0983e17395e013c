"""How full it is: what each process carries, what it costs, and what would be full first."""

from __future__ import annotations

from k8s.dashboards.panels import Dashboard, Row, panel
from k8s.dashboards.queries import SPAN, quantile, rate

CAPACITY = Dashboard(
    uid="spectacular-bid-capacity",
    title="Spectacular Bid: capacity",
    text="What each process carries and costs. One process uses one core at most.",
    rows=(
        Row(
            "Now",
            (
                panel("Live matches", "sum(spectacular_bid_live_matches)", kind="stat"),
                panel(
                    "Busiest process, of one core",
                    f"max(rate(process_cpu_seconds_total[{SPAN}]))",
                    kind="stat",
                    unit="percentunit",
                    red_from=0.8,
                ),
                panel("Game processes that take matches", "max(spectacular_bid_game_processes)", kind="stat"),
                panel(
                    "Processes that are drained",
                    "sum(spectacular_bid_draining)",
                    kind="stat",
                ),
                panel(
                    "Most files open, of those allowed",
                    "max(process_open_fds / process_max_fds)",
                    kind="stat",
                    unit="percentunit",
                    red_from=0.8,
                ),
                panel("Targets down", "count(up == 0) or vector(0)", kind="stat", red_from=1),
            ),
            height=4,
            in_a_line=6,
        ),
        Row(
            "Load",
            (
                panel(
                    "Live matches",
                    ("sum by (instance) (spectacular_bid_live_matches)", "{{instance}}"),
                    stacked=True,
                    text="The autoscaler looks at this.",
                ),
                panel(
                    "Commands",
                    (rate("spectacular_bid_commands_total", "instance"), "{{instance}}"),
                    unit="ops",
                    stacked=True,
                ),
                panel(
                    "Matches given to game processes",
                    (rate("spectacular_bid_matches_placed_total"), "placed"),
                    ("sum(spectacular_bid_matches_being_placed)", "being placed"),
                    (rate("spectacular_bid_matches_placed_again_total"), "placed again"),
                ),
                panel(
                    "Calls",
                    (rate("grpc_server_started_total", "grpc_method") + " > 0", "{{grpc_method}}"),
                    unit="ops",
                ),
                panel(
                    "Messages",
                    (rate("grpc_server_msg_received_total", "job"), "{{job}} in"),
                    (rate("grpc_server_msg_sent_total", "job"), "{{job}} out"),
                    unit="ops",
                ),
                panel(
                    "Streams", ("sum by (job, instance) (spectacular_bid_streams)", "{{job}} {{instance}}")
                ),
            ),
        ),
        Row(
            "What it costs",
            (
                panel(
                    "CPU, of one core",
                    (rate("process_cpu_seconds_total", "job, instance"), "{{job}} {{instance}}"),
                    unit="percentunit",
                    red_from=0.8,
                ),
                panel(
                    "Memory",
                    ("sum by (job, instance) (process_resident_memory_bytes)", "{{job}} {{instance}}"),
                    unit="bytes",
                ),
                panel(
                    "Files and connections open",
                    ("sum by (job, instance) (process_open_fds)", "{{job}} {{instance}}"),
                ),
                panel(
                    "Unary calls, 99 of 100 within",
                    (quantile(0.99, "grpc_server_handling_seconds", "job", 'grpc_type="unary"'), "{{job}}"),
                    unit="s",
                ),
                panel(
                    "Stalls of the event loop, the longest of a hundred",
                    (quantile(0.99, "spectacular_bid_loop_stall_seconds", "job"), "{{job}}"),
                    unit="s",
                    red_from=0.05,
                ),
                panel(
                    "A round of pairing, 99 of 100 within",
                    (quantile(0.99, "spectacular_bid_wave_seconds"), "p99"),
                    unit="s",
                ),
            ),
        ),
        Row(
            "The processes",
            (
                panel("Ready", ("sum by (job) (spectacular_bid_ready)", "{{job}}")),
                panel(
                    "What is missing",
                    (
                        "count by (job, condition) (spectacular_bid_readiness_condition == 0)",
                        "{{job}}: {{condition}}",
                    ),
                    text="`lead` of a standby and `in_service` of a drained process are meant.",
                ),
                panel(
                    "Releases",
                    ("count by (job, version) (spectacular_bid_build_info)", "{{job}} {{version}}"),
                ),
                panel(
                    "Up for",
                    ("time() - max by (job, instance) (process_start_time_seconds)", "{{job}} {{instance}}"),
                    unit="s",
                ),
                panel(
                    "Certificates are good for",
                    (
                        "min by (job, port) ((spectacular_bid_certificate_expiry_timestamp_seconds > 0) - time())",
                        "{{job}} {{port}}",
                    ),
                    unit="s",
                    red_below=604800,
                ),
                panel(
                    "Scraping takes",
                    (
                        'max by (job) (scrape_duration_seconds{job=~"clock|game|matchmaking|canary"})',
                        "{{job}}",
                    ),
                    unit="s",
                ),
            ),
        ),
    ),
)
