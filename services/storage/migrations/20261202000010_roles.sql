-- migrate:up

-- One role a service, each with what it needs and no more; services/storage/privileges.py has the same as a table, and
-- services ask at their start whether it holds. The owner of the tables migrates, and nobody else is the owner.

-- Roles belong to the whole server. Whoever may make roles makes those that are missing, without a way to log in: a
-- password is none of a migration's business. Where the owner may not (a managed database), they must be there before.
-- Limits of time go with the roles where we may say so; services ask for the same ones when they connect.
do $$
declare
    made text;
    about record;
begin
    for about in
        select * from (values
            ('game', '5s', '2s', '15s'),
            ('matchmaking', '10s', '5s', '15s'),
            ('clock', '5s', '2s', '5s'),
            ('archiver', '60s', '5s', '60s'),
            ('reader', '60s', '10s', '60s'),
            ('operator', '120s', '10s', '60s')
        ) as t (role, statement, lock, idle)
    loop
        made := 'spectacular_bid_' || about.role;
        if not exists (select from pg_roles where rolname = made) then
            begin
                execute format('create role %I nologin nosuperuser nocreatedb nocreaterole inherit', made);
            exception
                -- Another migration on this server was faster.
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise exception 'the role % is missing, and % may not make it: make it first', made, current_user
                        using hint = 'create role ' || made || ' login password ...';
            end;
        end if;
        if (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) then
            begin
                execute format('alter role %I set statement_timeout = %L', made, about.statement);
                execute format('alter role %I set lock_timeout = %L', made, about.lock);
                execute format('alter role %I set idle_in_transaction_session_timeout = %L', made, about.idle);
            exception
                when insufficient_privilege then null;
            end;
        end if;
    end loop;
    -- The outage view shows the replicas to those who may see them.
    begin
        grant pg_monitor to spectacular_bid_reader, spectacular_bid_operator;
    exception
        when insufficient_privilege then null;
    end;
    execute format('revoke create, temporary on database %I from public', current_database());
end
$$;

revoke all on schema public from public;
grant usage on schema public to
spectacular_bid_game, spectacular_bid_matchmaking, spectacular_bid_clock,
spectacular_bid_archiver, spectacular_bid_reader, spectacular_bid_operator;

-- How long a match was, for those who must not see its tiles: matchmaking lists results, and needs of a log only this.
create function match_length(the_match uuid, out rounds bigint, out dealt_at timestamptz, out turns bigint)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $$
    select count(*) filter (where events @> '[{"type": "round_dealt"}]'),
           min(at) filter (where events @> '[{"type": "round_dealt"}]'),
           coalesce(max(turn), 0)
    from public.match_log where match_id = the_match
$$;
revoke all on function match_length from public;
grant execute on function match_length to
spectacular_bid_matchmaking, spectacular_bid_reader, spectacular_bid_operator;

-- Everybody waits for the schema.
grant select on schema_migrations to
spectacular_bid_game, spectacular_bid_matchmaking, spectacular_bid_clock,
spectacular_bid_archiver, spectacular_bid_reader, spectacular_bid_operator;

-- A game process writes logs and ends matches. It rates nobody and seats nobody for the ladder's sake.
grant select, insert, update (name) on player to spectacular_bid_game;
grant select, insert on player_name to spectacular_bid_game;
grant select, insert on match, match_log, match_outcome, clock_evidence, no_show, incident to spectacular_bid_game;
grant select, insert, delete on live_seat to spectacular_bid_game;
grant select, insert, update (incarnation, address, renewed_at, lease_until, capacity, standing)
on engine_lease to spectacular_bid_game;
grant select, insert, update (engine_id, fence, released_at, handed_over_at) on match_owner to spectacular_bid_game;
grant select, insert, update (effect, credited_ns) on incident_match to spectacular_bid_game;
grant select on match_archive, process_order, lead to spectacular_bid_game;

-- Matchmaking pairs, seats and rates. It reads no log: of match_log it sees which matches have one.
grant select, insert, update (name) on player to spectacular_bid_matchmaking;
grant select, insert, update (name_key, skeleton, registered_at) on player_name to spectacular_bid_matchmaking;
grant select, insert on match, live_seat to spectacular_bid_matchmaking;
grant select, insert, update (engine_id, fence, handed_over_at) on match_owner to spectacular_bid_matchmaking;
grant select (match_id) on match_log to spectacular_bid_matchmaking;
grant select (match_id, rounds, turns, dealt_at) on match_archive to spectacular_bid_matchmaking;
grant select on engine_lease, match_outcome, no_show, incident_match to spectacular_bid_matchmaking;
grant select, insert, update (ended_at, detail) on incident to spectacular_bid_matchmaking;
grant select, insert, update, delete on seek, seek_memory to spectacular_bid_matchmaking;
grant select, insert, update on lead, rating, rating_decision to spectacular_bid_matchmaking;
grant select, insert on rating_revision, rating_ruling, rating_ruled, pool_order, process_order
to spectacular_bid_matchmaking;

-- A clock keeps what it noticed.
grant select on match to spectacular_bid_clock;
grant select, insert on incident, incident_match to spectacular_bid_clock;

-- The archiver moves the logs of finished matches, and is the only one who removes rows of a log.
grant select, delete on match_log to spectacular_bid_archiver;
grant select, insert on match_archive to spectacular_bid_archiver;
grant select on match_outcome to spectacular_bid_archiver;

-- Operators read everything but names that are reserved and seeks of a moment ago, and write nothing.
grant select on player, match, live_seat, engine_lease, match_owner, match_log, match_archive, clock_evidence,
match_outcome, no_show, incident, incident_match, lead, seek, rating, rating_decision, rating_revision, rating_ruling,
rating_ruled, pool_order, process_order to spectacular_bid_reader, spectacular_bid_operator;
-- When matchmaking is down: incidents and rulings straight in the database, which keeps who was connected.
grant insert, update (ended_at, detail) on incident to spectacular_bid_operator;
grant insert, update on rating, rating_decision to spectacular_bid_operator;
grant insert on rating_revision, rating_ruling, rating_ruled to spectacular_bid_operator;

-- migrate:down

-- Roles stay: other databases of the server may know them.
do $$
declare
    known text;
begin
    for known in select rolname from pg_roles where rolname like 'spectacular\_bid\_%' loop
        execute format('revoke all on all tables in schema public from %I', known);
        execute format('revoke all on schema public from %I', known);
    end loop;
end
$$;
grant usage on schema public to public;
drop function match_length;
