-- migrate:up

-- Players, matches, their logs and outcomes. Constraints repeat the invariants of the service at its last boundary.

create table player (
    player_id text primary key check (player_id ~ '^[a-z0-9][a-z0-9-]{0,63}$'),
    name text not null check (char_length(name) between 1 and 32),
    bot boolean not null default false,
    created_at timestamptz not null default now()
);

create table match (
    match_id uuid primary key,
    mode text not null check (mode in ('rated', 'casual', 'created', 'same_device')),
    rated boolean not null,
    north text not null references player,
    south text not null references player,
    bank_ns bigint not null check (bank_ns >= 0),
    delay_ns bigint not null check (delay_ns > 0),
    start_limit_ns bigint not null check (start_limit_ns > 0),
    continue_limit_ns bigint not null check (continue_limit_ns > 0),
    -- Start position and deals of a test configuration; null in every other.
    script jsonb,
    created_at timestamptz not null default now(),
    -- The CreateMatch call behind it, so that a repeated call finds its match; null when matchmaking made it.
    created_by text references player,
    request_id text,
    request_hash bytea,
    constraint match_one_device check ((north = south) = (mode = 'same_device')),
    -- Rated matches are all played under the same conditions.
    constraint match_rated_conditions check (
        not rated
        or (mode = 'rated' and bank_ns = 120000000000 and delay_ns = 10000000000 and script is null)
    ),
    constraint match_request unique (created_by, request_id)
);
create index match_north on match (north, created_at desc, match_id desc);
create index match_south on match (south, created_at desc, match_id desc);

-- One live match a player: the primary key is the rule. House bots play many at once and have no row.
create table live_seat (
    player_id text primary key references player,
    match_id uuid not null references match
);
create index live_seat_match on live_seat (match_id);

create table engine_lease (
    engine_id text primary key,
    incarnation text not null,
    address text not null,
    renewed_at timestamptz not null default clock_timestamp(),
    lease_until timestamptz not null
);

-- Who may write a match's log. Every append checks the fence in its own statement.
create table match_owner (
    match_id uuid primary key references match,
    engine_id text not null,
    fence bigint not null check (fence > 0),
    released_at timestamptz
);
create index match_owner_live on match_owner (engine_id) where released_at is null;

-- The log: one row a ruling. Its events, and the request and the stamps behind them, are one row and one write.
create table match_log (
    match_id uuid not null references match,
    revision bigint not null check (revision > 0),
    first_sequence bigint not null check (first_sequence > 0),
    last_sequence bigint not null,
    fence bigint not null,
    events jsonb not null,
    at timestamptz not null default clock_timestamp(),
    -- The request that caused it; null for what the service did by itself.
    seat text check (seat in ('north', 'south')),
    request_id text,
    request_hash bytea,
    -- The judged time; null where no clock ran. Instants are nanoseconds on timeline_id.
    turn bigint,
    start_ns bigint,
    arrive_ns bigint,
    start_raw_ns bigint,
    read_raw_ns bigint,
    timeline_id text,
    elapsed_ns bigint,
    consumed_ns bigint,
    charge_ns bigint,
    bank_after_ns bigint check (bank_after_ns >= 0),
    credited_ns bigint,
    clock_id text,
    policy_version text,
    primary key (match_id, revision),
    constraint match_log_request unique (match_id, request_id),
    constraint match_log_sequence unique (match_id, first_sequence),
    check (last_sequence >= first_sequence)
);

-- What a forfeit or a void rests on. Written before the outcome, in the same transaction.
create table clock_evidence (
    evidence_id uuid primary key,
    kind text not null,
    match_id uuid references match,
    engine_id text not null,
    incarnation text not null,
    clock_id text,
    timeline_id text,
    from_ns bigint,
    to_ns bigint,
    size_ns bigint,
    wall_at timestamptz not null default clock_timestamp(),
    policy_version text not null,
    detail jsonb not null
);
create index clock_evidence_match on clock_evidence (match_id);

create table match_outcome (
    match_id uuid primary key references match,
    winner text check (winner in ('north', 'south')),
    cause text not null check (cause in ('balance', 'time', 'resignation', 'void', 'cancelled')),
    detail text not null default '',
    evidence_id uuid references clock_evidence,
    fence bigint not null,
    north_balance integer not null check (north_balance >= 0 and north_balance % 5 = 0),
    south_balance integer not null check (south_balance >= 0 and south_balance % 5 = 0),
    ended_at timestamptz not null default clock_timestamp(),
    -- The order in which the ladder decides.
    ended_no bigint generated always as identity,
    constraint match_outcome_points check (north_balance + south_balance = 300),
    constraint match_outcome_winner check ((winner is null) = (cause in ('void', 'cancelled'))),
    constraint match_outcome_proof check (cause <> 'time' or evidence_id is not null)
);
create unique index match_outcome_order on match_outcome (ended_no);

create table no_show (
    match_id uuid not null references match,
    player_id text not null references player,
    at timestamptz not null default now(),
    primary key (match_id, player_id)
);

-- The ladder hears of an outcome at once; it also looks by itself, so a lost notice loses nothing.
create function notify_match_outcome() returns trigger language plpgsql as $$
begin
    perform pg_notify('match_outcome', new.match_id::text);
    return null;
end
$$;
create trigger match_outcome_notice after insert on match_outcome
for each row execute function notify_match_outcome();

-- migrate:down

drop table no_show, match_outcome, clock_evidence, match_log, match_owner, engine_lease, live_seat, match, player;
drop function notify_match_outcome;
