-- migrate:up

-- Results that are annulled before they were rated, and how an act of a person came about.

-- `operations`: through matchmaking, which knows the author by a token; `database`: straight in the database, where the
-- author is as given and `database_user` is who was connected; null: made by an older release.
alter table rating_ruling add column via text;
alter table rating_ruling add column database_user text;
alter table rating_ruling add constraint rating_ruling_via check (
    via in ('service', 'operations', 'database') and (via = 'database') = (database_user is not null)
) not valid;

-- annul: the result was declared void before it was rated; automatic when it was declared while the match was live, and
-- the match ended in another way first. Rows that are stored satisfy the wider constraints.
-- squawk-ignore ban-drop-constraint
alter table rating_ruling drop constraint rating_ruling_action_check;
alter table rating_ruling add constraint rating_ruling_action_check check (
    action in ('hold', 'release', 'reverse', 'recompute', 'annul')
) not valid;
-- squawk-ignore ban-drop-constraint
alter table rating_ruling drop constraint rating_ruling_check;
alter table rating_ruling add constraint rating_ruling_automatic check (
    not automatic or action in ('hold', 'recompute', 'annul')
) not valid;
-- squawk-ignore ban-drop-constraint
alter table rating_decision drop constraint rating_decision_reason;
alter table rating_decision add constraint rating_decision_reason check (
    reason in ('rated', 'unrated_mode', 'void', 'cancelled', 'held', 'reversed', 'annulled')
    and (reason not in ('held', 'reversed', 'annulled') or ruling_id is not null)
) not valid;

-- The list of acts, newest first.
create index rating_ruling_time on rating_ruling (at);
create index pool_order_time on pool_order (at);

-- migrate:down

drop index pool_order_time, rating_ruling_time;
-- squawk-ignore ban-drop-constraint
alter table rating_decision drop constraint rating_decision_reason;
alter table rating_decision add constraint rating_decision_reason check (
    reason in ('rated', 'unrated_mode', 'void', 'cancelled', 'held', 'reversed')
    and (reason not in ('held', 'reversed') or ruling_id is not null)
) not valid;
-- squawk-ignore ban-drop-constraint
alter table rating_ruling drop constraint rating_ruling_automatic;
alter table rating_ruling add constraint rating_ruling_check check (
    not automatic or action in ('hold', 'recompute')
) not valid;
-- squawk-ignore ban-drop-constraint
alter table rating_ruling drop constraint rating_ruling_action_check;
alter table rating_ruling add constraint rating_ruling_action_check check (
    action in ('hold', 'release', 'reverse', 'recompute')
) not valid;
alter table rating_ruling drop column database_user, drop column via;
