-- migrate:up

-- What operators have ordered about the pools of matchmaking. Rows are only ever added: the newest of a pool counts,
-- one for its mode and one for its announcement, until its end; the others say who did what and why.
create table pool_order (
    order_no bigint generated always as identity primary key,
    pool text not null check (pool in ('rated', 'casual')),
    action text not null check (action in ('pause', 'drain', 'resume', 'announce')),
    -- What those who wait are told; empty takes an announcement back.
    announcement text not null default '' check (announcement = '' or action = 'announce'),
    author text not null check (author <> ''),
    reason text not null default '' check (reason <> '' or action in ('resume', 'announce')),
    at timestamptz not null default clock_timestamp(),
    -- From then on it is as if the pool were open, or nothing announced.
    until timestamptz check (until is null or action <> 'resume')
);
create index pool_order_newest on pool_order (pool, (action = 'announce'), order_no desc);

-- migrate:down

drop table pool_order;
