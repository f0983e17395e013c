-- migrate:up

-- log_lost: the database came back without rulings that it had acknowledged. Rows that are stored satisfy the wider
-- constraint.
-- squawk-ignore ban-drop-constraint
alter table incident drop constraint incident_kind_check;
alter table incident add constraint incident_kind_check check (
    kind in (
        'stall', 'takeover', 'handoff', 'clock_lost', 'clock_disruption',
        'commit_stalled', 'mass_disconnect', 'operator', 'log_lost'
    )
) not valid;
-- Such an incident voids a match, too, that another process goes on with without what its players were told.
drop index incident_operator;
create index incident_declared on incident (ended_at) where kind in ('operator', 'log_lost');

-- migrate:down

drop index incident_declared;
create index incident_operator on incident (ended_at) where kind = 'operator';
-- squawk-ignore ban-drop-constraint
alter table incident drop constraint incident_kind_check;
alter table incident add constraint incident_kind_check check (
    kind in (
        'stall', 'takeover', 'handoff', 'clock_lost', 'clock_disruption',
        'commit_stalled', 'mass_disconnect', 'operator'
    )
) not valid;
