-- migrate:up

-- Seeks that outlive their streams for a moment, who led when, and what excuses a no-show.

-- What the client calls its seek: coming again under this name, it goes on waiting. Null: made by an older release.
alter table seek add column request_id text;

-- Seeks that ended without a match, for a minute. Nobody is paired through them: one that was `lost` can be taken up
-- again under its name and keeps its waiting time; the others are over.
create table seek_memory (
    player_id text not null references player,
    request_id text not null,
    pool text not null check (pool in ('rated', 'casual')),
    since timestamptz not null,
    how text not null check (how in ('lost', 'cancelled', 'replaced')),
    ended_at timestamptz not null default clock_timestamp(),
    primary key (player_id, request_id)
);
create index seek_memory_age on seek_memory (ended_at);

-- Who leads matchmaking, or led last, and when it was last known to be there. The lock decides who leads; this says
-- for how long nobody did.
create table lead (
    one boolean primary key default true check (one),
    leader_id uuid not null,
    renewed_at timestamptz not null default clock_timestamp(),
    -- Set by a leader that has left in order.
    left_at timestamptz
);

create index no_show_player on no_show (player_id, at);
create index incident_end on incident (ended_at);

-- Whether the service itself was in trouble between the creation of a match and `until`, so that nobody can be blamed
-- for not having been there. Counts: what touched the match; what happened to its process; what concerns everybody.
-- A process that did not listen for less than a second, with nothing credited, kept nobody from pressing Start.
create function match_had_incident(the_match uuid, until timestamptz) returns boolean language plpgsql stable as $$
declare
    created timestamptz := (select m.created_at from match m where m.match_id = the_match);
    owner text := (select o.engine_id from match_owner o where o.match_id = the_match);
begin
    -- Every range has two ends, so that the few incidents of that time are found by index among many older ones. What
    -- had begun before the match and ends more than a week after it is missed: only a declaration could say so ahead.
    return exists (
        select from incident_match x where x.match_id = the_match
    ) or exists (
        -- Nobody leads, so that nobody has written down yet that nobody does.
        select from lead l where coalesce(l.left_at, l.renewed_at) < until - interval '5 seconds'
    ) or exists (
        select from incident i
        where i.began_at < until
          and (
              i.ended_at is null
              or (i.ended_at > created and i.ended_at < until + interval '7 days')
              or (i.began_at > created and i.began_at < until)
          )
          and (i.kind <> 'stall' or i.ended_at - i.began_at >= interval '1 second')
          and case
              when i.kind in ('mass_disconnect', 'commit_stalled') then true
              when i.detail ->> 'scope' = 'matches' then i.detail -> 'matches' ? the_match::text
              else i.engine_id is null or i.engine_id = owner
          end
    );
end
$$;

-- migrate:down

drop function match_had_incident;
drop index incident_end, no_show_player;
drop table lead, seek_memory;
alter table seek drop column request_id;
