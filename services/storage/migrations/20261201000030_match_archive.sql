-- migrate:up

-- The logs of matches that have long been over: one compressed row a match in place of its rows in match_log, whose
-- every column it keeps. What lists need of a log is beside it, so that they need not open it.
create table match_archive (
    match_id uuid primary key references match_outcome,
    rulings bigint not null check (rulings > 0),
    rounds bigint not null check (rounds >= 0),
    turns bigint not null check (turns >= 0),
    -- When the first round was dealt.
    dealt_at timestamptz,
    -- Time of each seat's turns that was not charged.
    north_credited_ns bigint not null check (north_credited_ns >= 0),
    south_credited_ns bigint not null check (south_credited_ns >= 0),
    -- Bytes and SHA-256 of what `data` holds when it is unpacked.
    plain_bytes bigint not null check (plain_bytes > 0),
    checksum bytea not null check (length(checksum) = 32),
    data bytea not null,
    archived_at timestamptz not null default clock_timestamp()
);
-- It is compressed already.
alter table match_archive alter column data set storage external;

-- Rows come and go there at the same pace: what has become free must be found again soon, not when a fifth of the table
-- is dead.
alter table match_log set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- migrate:down

alter table match_log reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
drop table match_archive;
