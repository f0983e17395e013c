-- migrate:up

-- What waits for its next owner, among any number of matches that do not: looked at four times a second.
create index match_owner_offered on match_owner (match_id) where released_at is null and handed_over_at is not null;

-- migrate:down

drop index match_owner_offered;
