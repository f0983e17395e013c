-- migrate:up

-- Tokens that count no more before they expire: of a player, all that were issued up to this moment. Rows are only ever
-- added; they are added under one lock, so that whoever follows their numbers misses none.
create table token_revocation (
    revocation_no bigint generated always as identity primary key,
    revocation_id uuid not null unique,
    -- Perhaps of somebody who has never been here: a token may be stolen before it is used.
    player_id text not null check (player_id ~ '^[a-z0-9][a-z0-9-]{0,63}$'),
    author text not null check (author <> ''),
    reason text not null check (reason <> ''),
    via text not null check (via in ('operations', 'database')),
    database_user text,
    at timestamptz not null default clock_timestamp(),
    check ((via = 'database') = (database_user is not null))
);
create index token_revocation_time on token_revocation (at);

grant select on token_revocation to spectacular_bid_game;
grant select, insert on token_revocation to spectacular_bid_matchmaking;
grant select on token_revocation to spectacular_bid_reader;
grant select, insert on token_revocation to spectacular_bid_operator;

-- migrate:down

drop table token_revocation;
