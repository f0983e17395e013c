-- migrate:up

-- A request id is its player's alone: whoever sits on the other side may use the same one, by chance or in order to be
-- in the way. The old rule goes when the new one is there.
create unique index match_log_seat_request on match_log (match_id, seat, request_id);
-- squawk-ignore ban-drop-constraint
alter table match_log drop constraint match_log_request;

-- migrate:down

drop index match_log_seat_request;
-- squawk-ignore constraint-missing-not-valid, disallowed-unique-constraint
alter table match_log add constraint match_log_request unique (match_id, request_id);
