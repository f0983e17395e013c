-- squawk-ignore-file ban-drop-constraint

-- migrate:up

-- Rules of the service at its last boundary, besides those that are there: whoever writes past the code is refused. What
-- is stored satisfies them (`python -m services.ops check` asks), so it is not looked through for it. Nothing here makes
-- an append look anything up: the log's own checks look at the row alone.

alter table player add constraint player_name_printable check (
    name !~ '[\u0001-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]'
) not valid;

alter table match add constraint match_rated_mode check (rated = (mode = 'rated')) not valid;

-- An event has its own number, so an empty row and one with more or fewer events than numbers are faults.
alter table match_log add constraint match_log_events check (
    case when jsonb_typeof(events) = 'array' then jsonb_array_length(events) else -1 end
    = last_sequence - first_sequence + 1
) not valid;
alter table match_log add constraint match_log_first check ((revision = 1) = (first_sequence = 1)) not valid;

-- Whoever has played all of a balance down to nothing has won, and nobody else has won so.
alter table match_outcome add constraint match_outcome_balance check (
    cause <> 'balance' or case winner when 'north' then south_balance when 'south' then north_balance end = 0
) not valid;
-- The proof is about this very match.
create unique index clock_evidence_own on clock_evidence (evidence_id, match_id);
alter table match_outcome add constraint match_outcome_own_proof
foreign key (evidence_id, match_id) references clock_evidence (evidence_id, match_id) not valid;

-- NaN is above infinity in the order of PostgreSQL.
alter table rating add constraint rating_finite check (
    mu > '-infinity' and mu < 'infinity' and sigma < 'infinity'
) not valid;
alter table rating_decision add constraint rating_decision_finite check (
    greatest(
        abs(north_mu_before), abs(north_mu_after), abs(south_mu_before), abs(south_mu_after),
        abs(north_sigma_before), abs(north_sigma_after), abs(south_sigma_before), abs(south_sigma_after), 0
    ) < 'infinity'
) not valid;

-- Nobody is seated in a match, nor blamed for one, that others play.
create function refuse_stranger() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
    if not exists (
        select from public.match m where m.match_id = new.match_id and new.player_id in (m.north, m.south)
    ) then
        raise check_violation using
            message = format('new row for relation "%s" violates rule "%s_player"', tg_table_name, tg_table_name);
    end if;
    return new;
end
$$;
create trigger live_seat_player before insert or update on live_seat
for each row execute function refuse_stranger();
create trigger no_show_player before insert or update on no_show
for each row execute function refuse_stranger();

-- A rated match seats both its players from the transaction that makes it to the one that ends it. House bots play many
-- at once and have no seat.
create function refuse_unseated() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
    the_match uuid := case tg_op when 'DELETE' then old.match_id else new.match_id end;
begin
    if exists (
        select from public.match m join public.player p on p.player_id in (m.north, m.south)
        where m.match_id = the_match and m.rated and not p.bot
          and not exists (
              select from public.live_seat s where s.player_id = p.player_id and s.match_id = m.match_id
          )
          and not exists (select from public.match_outcome o where o.match_id = m.match_id)
    ) then
        raise check_violation using message = 'a rated match without both its players violates rule "match_seats"';
    end if;
    return null;
end
$$;
create constraint trigger match_seats after insert on match deferrable initially deferred
for each row when (new.rated) execute function refuse_unseated();
create constraint trigger live_seat_kept after delete on live_seat deferrable initially deferred
for each row execute function refuse_unseated();

-- What is over stays as it ended; a fence only grows; rulings, orders and proofs are added to, never changed.
create function refuse_change() returns trigger language plpgsql as $$
begin
    raise check_violation using
        message = format('%s of relation "%s" violates rule "%s"', lower(tg_op), tg_table_name, tg_name);
end
$$;
create trigger match_outcome_once before update on match_outcome for each row when (
    (old.match_id, old.winner, old.cause, old.detail, old.evidence_id, old.north_balance, old.south_balance)
    is distinct from
    (new.match_id, new.winner, new.cause, new.detail, new.evidence_id, new.north_balance, new.south_balance)
) execute function refuse_change();
create trigger match_owner_fence before update on match_owner for each row when (new.fence < old.fence)
execute function refuse_change();
create trigger clock_evidence_kept before update on clock_evidence
for each statement execute function refuse_change();
create trigger rating_revision_kept before update or delete on rating_revision
for each statement execute function refuse_change();
create trigger rating_ruling_kept before update or delete on rating_ruling
for each statement execute function refuse_change();
create trigger rating_ruled_kept before update or delete on rating_ruled
for each statement execute function refuse_change();
create trigger pool_order_kept before update or delete on pool_order
for each statement execute function refuse_change();
create trigger process_order_kept before update or delete on process_order
for each statement execute function refuse_change();

-- migrate:down

drop trigger process_order_kept on process_order;
drop trigger pool_order_kept on pool_order;
drop trigger rating_ruled_kept on rating_ruled;
drop trigger rating_ruling_kept on rating_ruling;
drop trigger rating_revision_kept on rating_revision;
drop trigger clock_evidence_kept on clock_evidence;
drop trigger match_owner_fence on match_owner;
drop trigger match_outcome_once on match_outcome;
drop function refuse_change;
drop trigger live_seat_kept on live_seat;
drop trigger match_seats on match;
drop function refuse_unseated;
drop trigger no_show_player on no_show;
drop trigger live_seat_player on live_seat;
drop function refuse_stranger;
alter table rating_decision drop constraint rating_decision_finite;
alter table rating drop constraint rating_finite;
alter table match_outcome drop constraint match_outcome_own_proof;
drop index clock_evidence_own;
alter table match_outcome drop constraint match_outcome_balance;
alter table match_log drop constraint match_log_first, drop constraint match_log_events;
alter table match drop constraint match_rated_mode;
alter table player drop constraint player_name_printable;
