-- migrate:up

-- Open seeks and the ladder.

create table seek (
    player_id text primary key references player,
    seek_id uuid not null unique,
    pool text not null check (pool in ('rated', 'casual')),
    since timestamptz not null default clock_timestamp()
);

create table rating (
    player_id text primary key references player,
    mu double precision not null,
    sigma double precision not null check (sigma > 0),
    shown integer not null,
    rated_matches integer not null check (rated_matches >= 0),
    wins integer not null check (wins between 0 and rated_matches),
    updated_at timestamptz not null default now()
);
create index rating_shown on rating (shown desc, player_id);

-- Exactly one decision a finished match, with what it rests on and what it changed.
create table rating_decision (
    match_id uuid primary key references match_outcome,
    rated boolean not null,
    reason text not null check (reason in ('rated', 'unrated_mode', 'void', 'cancelled')),
    model_version text not null,
    north_mu_before double precision,
    north_sigma_before double precision,
    north_mu_after double precision,
    north_sigma_after double precision,
    south_mu_before double precision,
    south_sigma_before double precision,
    south_mu_after double precision,
    south_sigma_after double precision,
    decided_at timestamptz not null default now(),
    decided_no bigint generated always as identity unique,
    constraint rating_decision_figures check (
        case when rated then
            reason = 'rated' and num_nulls(
                north_mu_before, north_sigma_before, north_mu_after, north_sigma_after,
                south_mu_before, south_sigma_before, south_mu_after, south_sigma_after
            ) = 0
        else
            reason <> 'rated' and num_nonnulls(
                north_mu_before, north_sigma_before, north_mu_after, north_sigma_after,
                south_mu_before, south_sigma_before, south_mu_after, south_sigma_after
            ) = 0
        end
    )
);

-- migrate:down

drop table rating_decision, rating, seek;
