-- migrate:up

-- What the deals of a match are drawn from, beside what its players add: made when the match is opened first, before
-- anybody is told the commitment to the first round's seed, and the same for whoever plays the match after that. Whoever
-- reads it while the match is live, and the contributions, knows the deals: of all services only the game process may.
create table match_seed (
    match_id uuid primary key references match (match_id),
    seed bytea not null check (octet_length(seed) = 32),
    at timestamptz not null default clock_timestamp()
);
grant select, insert on match_seed to spectacular_bid_game;

-- migrate:down

drop table match_seed;
