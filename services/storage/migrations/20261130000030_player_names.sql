-- migrate:up

-- The names that are taken. A player without a row here goes by a neutral name, which nobody may choose.
create table player_name (
    player_id text primary key references player,
    -- Equal for names that differ in case only.
    name_key text not null check (char_length(name_key) between 1 and 128),
    -- Equal for names that look alike.
    skeleton text not null check (char_length(skeleton) between 1 and 512),
    -- When the player registered it; null for what the token suggested when the player first came.
    registered_at timestamptz,
    constraint player_name_key unique (name_key),
    constraint player_name_skeleton unique (skeleton)
);

-- Of the names that players have, those stay that are surely allowed and that no earlier player has. What is computed
-- here is what services/common/names.py computes for plain ASCII. Everybody else may register the old name again, or
-- another.
with plain as (
    select player_id, created_at, bot, name, lower(name) as name_key,
           replace(translate(lower(name), 'i10 ', 'llo'), 'm', 'rn') as skeleton
    from player
    where name ~ '^[A-Za-z0-9]+( [A-Za-z0-9]+)*$' and name ~ '[A-Za-z]' and char_length(name) between 2 and 20
), allowed as (
    select distinct on (skeleton) player_id, name_key, skeleton
    from plain
    where bot
       or skeleton not in ('adrnln', 'adrnlnlstrator', 'rnoderator', 'operator', 'offlclal', 'staff', 'support',
                           'systern', 'server', 'servlce', 'spectacularbld', 'root', 'anonyrnous', 'nobody', 'everyone',
                           'guest', 'bot', 'house', 'greedy')
       and skeleton !~ '^player[2-9a-flo]{6,}$'
    order by skeleton, bot desc, created_at, player_id
)
insert into player_name (player_id, name_key, skeleton) select player_id, name_key, skeleton from allowed;

update player p set name = 'player-' || left(encode(sha256(convert_to(p.player_id, 'UTF8')), 'hex'), 12)
where not exists (select from player_name n where n.player_id = p.player_id);

-- migrate:down

drop table player_name;
