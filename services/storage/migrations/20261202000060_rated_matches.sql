-- migrate:up

-- Rated matches are made by matchmaking alone. A game process makes those that players ask for, none of which is rated:
-- without this, one that is taken over could have the ladder rate matches that nobody has played.
create function refuse_rated() returns trigger language plpgsql as $$
begin
    raise insufficient_privilege using message = 'rated matches are made by matchmaking';
end
$$;
create trigger match_rated_maker before insert on match
for each row when (new.rated and current_user = 'spectacular_bid_game') execute function refuse_rated();

-- migrate:down

drop trigger match_rated_maker on match;
drop function refuse_rated;
