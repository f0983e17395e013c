-- migrate:up

-- What operators have ordered about game processes, by their stable names. Rows are only ever added: the newest of a
-- process counts, through all its restarts; the others say who did what and why.
create table process_order (
    order_no bigint generated always as identity primary key,
    engine_id text not null check (engine_id <> ''),
    action text not null check (action in ('drain', 'resume')),
    author text not null check (author <> ''),
    reason text not null default '' check (reason <> '' or action = 'resume'),
    at timestamptz not null default clock_timestamp()
);
create index process_order_newest on process_order (engine_id, order_no desc);
create index process_order_time on process_order (at);

-- What a game process says of itself with each sign of life, for those that hand matches over: how many it takes, and
-- whether it takes any. `leaving`: it is about to end, and whatever it hands over must go somewhere, however full.
alter table engine_lease add column capacity integer not null default 0;
alter table engine_lease add column standing text not null default 'unready'
    constraint engine_lease_standing check (standing in ('ready', 'unready', 'drained', 'leaving'));

-- migrate:down

alter table engine_lease drop column standing, drop column capacity;
drop table process_order;
