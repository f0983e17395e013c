-- migrate:up

-- Matches that were made against a person who has not taken the seat yet: the row goes when they do, and with it what
-- keeps the match out of their lists. A release that does not know it seats both at once and makes no row.
create table invitation (
    match_id uuid primary key references match,
    inviter text not null references player,
    invited text not null references player check (invited <> inviter),
    at timestamptz not null default clock_timestamp()
);
create index invitation_inviter on invitation (inviter, at);
create index invitation_invited on invitation (invited, at);

-- Whom the player's newest seek does not want to meet; null: none.
alter table player add column blocked text[];

grant select, insert, delete on invitation to spectacular_bid_game;
grant select on invitation to spectacular_bid_matchmaking, spectacular_bid_reader, spectacular_bid_operator;
grant update (blocked) on player to spectacular_bid_matchmaking;

-- migrate:down

alter table player drop column blocked;
drop table invitation;
