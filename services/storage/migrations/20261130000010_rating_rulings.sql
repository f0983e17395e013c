-- migrate:up

-- What people and the service rule about results: held for a person to look at, released, reversed. The ladder is the
-- fold of outcomes and rulings; what decisions said before a ruling changed them is kept.

create table rating_ruling (
    ruling_id uuid primary key,
    -- The order in which rulings count.
    ruling_no bigint generated always as identity unique,
    -- recompute: stored decisions were found to differ from the fold, or a result came after later ones.
    action text not null check (action in ('hold', 'release', 'reverse', 'recompute')),
    author text not null check (author <> ''),
    -- Made by the service because of an incident, not by a person.
    automatic boolean not null,
    reason text not null check (reason <> ''),
    incident_id uuid references incident,
    at timestamptz not null default clock_timestamp(),
    check (not automatic or action in ('hold', 'recompute'))
);
create index rating_ruling_incident on rating_ruling (incident_id) where incident_id is not null;

-- The matches a ruling is about. Those it changes because they came later are in rating_revision.
create table rating_ruled (
    match_id uuid not null references match_outcome,
    ruling_id uuid not null references rating_ruling,
    primary key (match_id, ruling_id)
);
create index rating_ruled_ruling on rating_ruled (ruling_id);

-- The newest ruling about the match; how many times the decision was changed. What is stored already satisfies the
-- constraints; they are not looked through for it.
alter table rating_decision add column ruling_id uuid;
alter table rating_decision add column revision integer not null default 1;
alter table rating_decision add constraint rating_decision_revision check (revision > 0) not valid;
alter table rating_decision add constraint rating_decision_ruling
foreign key (ruling_id) references rating_ruling not valid;
-- squawk-ignore ban-drop-constraint
alter table rating_decision drop constraint rating_decision_reason_check;
alter table rating_decision add constraint rating_decision_reason check (
    reason in ('rated', 'unrated_mode', 'void', 'cancelled', 'held', 'reversed')
    and (reason not in ('held', 'reversed') or ruling_id is not null)
) not valid;
create index rating_decision_held on rating_decision (decided_no) where reason = 'held';

-- What a decision said before a ruling changed it.
create table rating_revision (
    match_id uuid not null references match_outcome,
    revision integer not null check (revision > 0),
    rated boolean not null,
    reason text not null,
    model_version text not null,
    north_mu_before double precision,
    north_sigma_before double precision,
    north_mu_after double precision,
    north_sigma_after double precision,
    south_mu_before double precision,
    south_sigma_before double precision,
    south_mu_after double precision,
    south_sigma_after double precision,
    ruling_id uuid references rating_ruling,
    superseded_by uuid not null references rating_ruling,
    superseded_at timestamptz not null default clock_timestamp(),
    primary key (match_id, revision)
);
create index rating_revision_superseded on rating_revision (superseded_by);

-- The newest of a player's results that counts or could: an older one that is decided later is noticed by it.
alter table rating add column newest_ended_no bigint not null default 0;
update rating r set newest_ended_no = coalesce((
    select max(o.ended_no) from rating_decision d join match_outcome o using (match_id) join match m using (match_id)
    where d.rated and (m.north = r.player_id or m.south = r.player_id)
), 0);

-- Results of the window of an incident, and incidents that hold results.
create index match_outcome_time on match_outcome (ended_at);
create index incident_holding on incident (began_at) where kind in ('operator', 'mass_disconnect');

-- migrate:down

drop index incident_holding, match_outcome_time, rating_decision_held;
alter table rating drop column newest_ended_no;
drop table rating_revision;
-- squawk-ignore ban-drop-constraint
alter table rating_decision drop constraint rating_decision_reason;
delete from rating_decision where reason in ('held', 'reversed');
alter table rating_decision drop column revision, drop column ruling_id;
alter table rating_decision add constraint rating_decision_reason_check
check (reason in ('rated', 'unrated_mode', 'void', 'cancelled')) not valid;
drop table rating_ruled, rating_ruling;
