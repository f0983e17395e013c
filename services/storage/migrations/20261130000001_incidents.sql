-- migrate:up

-- What went wrong, who noticed, and what it did to matches: what credits, voids and held ratings rest on.

create table incident (
    incident_id uuid primary key,
    kind text not null check (
        kind in (
            'stall', 'takeover', 'handoff', 'clock_lost', 'clock_disruption',
            'commit_stalled', 'mass_disconnect', 'operator'
        )
    ),
    -- The process or person that says so, for example `game/game-0` or `operator/ada`.
    noticed_by text not null,
    engine_id text,
    incarnation text,
    clock_id text,
    -- Nanoseconds on timeline_id; null where no single timeline covers it.
    timeline_id text,
    from_ns bigint,
    to_ns bigint,
    began_at timestamptz not null,
    -- Null while it lasts.
    ended_at timestamptz,
    policy_version text not null,
    reason text not null default '',
    detail jsonb not null default '{}',
    check (ended_at is null or ended_at >= began_at)
);
create index incident_time on incident (began_at desc, incident_id);
create index incident_open on incident (kind) where ended_at is null;
-- Game processes look about once a second for what an operator has declared; there are few of those.
create index incident_operator on incident (ended_at) where kind = 'operator';

create table incident_match (
    incident_id uuid not null references incident,
    match_id uuid not null references match,
    effect text not null check (effect in ('continued', 'credited', 'held', 'void')),
    credited_ns bigint not null default 0 check (credited_ns >= 0),
    primary key (incident_id, match_id)
);
create index incident_match_match on incident_match (match_id);

-- Set by an owner that leaves while the match goes on: anyone may take it up at once.
alter table match_owner add column handed_over_at timestamptz;

-- Time of the turn that counted as used when the judged part of it began. Not derivable after an outage.
alter table match_log add column carried_ns bigint check (carried_ns >= 0);

-- migrate:down

alter table match_log drop column carried_ns;
alter table match_owner drop column handed_over_at;
drop table incident_match, incident;
