-- migrate:up

-- What the ladder would else count or look for among everything there ever was. Triggers keep it, with the rights of the
-- owner: nobody else writes the two tables.

-- Finished matches that await their rating decision, in the order in which they ended. All outcomes are looked through
-- for it before anybody is locked out, and the newest ones again afterwards.
create table rating_due (
    ended_no bigint primary key,
    match_id uuid not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
insert into rating_due (ended_no, match_id)
select o.ended_no, o.match_id from match_outcome o
where not exists (select from rating_decision d where d.match_id = o.match_id);

-- From here on nobody ends a match or decides, for as long as the players are counted. In the order in which a decision
-- takes them.
lock table rating in share row exclusive mode;
lock table rating_decision in access exclusive mode;
lock table match_outcome in share row exclusive mode;

delete from rating_due u using rating_decision d where d.match_id = u.match_id;
insert into rating_due (ended_no, match_id)
select o.ended_no, o.match_id from match_outcome o
where o.ended_no > (select coalesce(max(ended_no), 0) - 100000 from match_outcome)
  and not exists (select from rating_decision d where d.match_id = o.match_id)
on conflict do nothing;
alter table rating_due add constraint rating_due_outcome
foreign key (match_id) references match_outcome on delete cascade not valid;

create function note_due() returns trigger language plpgsql
security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    insert into public.rating_due (ended_no, match_id) values (new.ended_no, new.match_id);
    return null;
end
$$;
create function note_decided() returns trigger language plpgsql
security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    delete from public.rating_due u using public.match_outcome o
    where o.match_id = new.match_id and u.ended_no = o.ended_no;
    return null;
end
$$;
create trigger match_outcome_due after insert on match_outcome for each row execute function note_due();
create trigger rating_decision_done after insert on rating_decision for each row execute function note_decided();

-- How many ranked players are shown which rating: a rank is a sum over a few thousand rows, however many players there
-- are. Decisions at the same time must not wait for each other, so whoever finds the row of a rating locked makes another
-- one for it: there are as many as decisions were ever under way at once. They change in place as long as there is room.
create table rating_count (
    count_id bigint generated always as identity primary key,
    shown integer not null,
    players integer not null
) with (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index rating_count_shown on rating_count (shown);
insert into rating_count (shown, players)
select shown, count(*) from rating where rated_matches > 0 group by shown;

create function add_ranked(the_shown integer, change bigint) returns void language plpgsql as $$
begin
    update public.rating_count c set players = c.players + change where c.count_id = (
        select f.count_id from public.rating_count f where f.shown = the_shown limit 1 for update skip locked
    );
    if not found then
        insert into public.rating_count (shown, players) values (the_shown, change);
    end if;
end
$$;
revoke all on function add_ranked from public;

create function count_ranked() returns trigger language plpgsql
security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        perform public.add_ranked(shown, count(*)) from later where rated_matches > 0 group by shown;
    elsif tg_op = 'DELETE' then
        perform public.add_ranked(shown, -count(*)) from earlier where rated_matches > 0 group by shown;
    elsif tg_op = 'UPDATE' then
        perform public.add_ranked(shown, sum(change)) from (
            select shown, 1 as change from later where rated_matches > 0
            union all
            select shown, -1 from earlier where rated_matches > 0
        ) as changes
        group by shown having sum(change) <> 0;
    else
        delete from public.rating_count;
    end if;
    return null;
end
$$;
create trigger rating_counted_new after insert on rating referencing new table as later
for each statement execute function count_ranked();
create trigger rating_counted_again after update on rating referencing old table as earlier new table as later
for each statement execute function count_ranked();
create trigger rating_counted_gone after delete on rating referencing old table as earlier
for each statement execute function count_ranked();
create trigger rating_counted_none after truncate on rating for each statement execute function count_ranked();

-- How long the match was, for lists, which would else work it out of its log with each look.
alter table rating_decision add column match_rounds bigint, add column match_turns bigint;
alter table rating_decision add column match_dealt_at timestamptz;
create function keep_length() returns trigger language plpgsql
security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    select rounds, turns, dealt_at into new.match_rounds, new.match_turns, new.match_dealt_at
    from public.match_length(new.match_id);
    return new;
end
$$;
create trigger rating_decision_length before insert on rating_decision for each row execute function keep_length();

-- Each decision asks whether its match was declared void before it is rated: of all declarations only those can say so.
create index incident_annulling on incident (began_at, incident_id)
where kind = 'operator' and detail -> 'before_rating' = 'true';

grant select on rating_count, rating_due to
spectacular_bid_matchmaking, spectacular_bid_reader, spectacular_bid_operator;

-- migrate:down

drop index incident_annulling;
drop trigger rating_decision_length on rating_decision;
drop function keep_length;
alter table rating_decision drop column match_dealt_at, drop column match_turns, drop column match_rounds;
drop trigger rating_counted_none on rating;
drop trigger rating_counted_gone on rating;
drop trigger rating_counted_again on rating;
drop trigger rating_counted_new on rating;
drop function count_ranked, add_ranked;
drop table rating_count;
drop trigger rating_decision_done on rating_decision;
drop trigger match_outcome_due on match_outcome;
drop function note_decided, note_due;
drop table rating_due;
