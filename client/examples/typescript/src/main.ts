// A bot that finds an opponent and plays a match: node dist/src/main.js HOST:PORT [NAME]

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { failureOf } from "./errors";
import { Sitting } from "./match";
import { bearer, connect } from "./service";

import type { CreateGuestResponse__Output } from "../generated/spectacularbid/identity/v1/CreateGuestResponse";
import type { Matched__Output } from "../generated/spectacularbid/matchmaking/v1/Matched";

type Service = ReturnType<typeof connect>;

/** A new player. Not repeated by itself: each call makes another one. */
function guest(service: Service, name: string): Promise<CreateGuestResponse__Output> {
  return new Promise((resolve, reject) => {
    service.guests.CreateGuest({ name }, (error, made) => (made ? resolve(made) : reject(error)));
  });
}

/** Where a match is played now; empty while it is moving, or when nobody can say. */
function locate(service: Service, token: string, matchId: string): Promise<string> {
  return new Promise((resolve) => {
    const options = { deadline: Date.now() + 2_000 };
    service.matchmaking.LocateMatch({ match_id: matchId }, bearer(token), options, (_, found) =>
      resolve(found?.address ?? ""),
    );
  });
}

/** Waits for an opponent for as long as it takes. A lost stream goes on under the same request_id. */
async function seek(service: Service, token: string): Promise<Matched__Output> {
  const request = { request_id: randomUUID(), pool: "POOL_CASUAL" } as const;
  for (;;) {
    try {
      for await (const news of service.matchmaking.Seek(request, bearer(token))) {
        if (news.matched) return news.matched;
      }
    } catch (error) {
      const { retryAfterMs } = failureOf(error);
      if (retryAfterMs === undefined) throw error;
      await sleep(retryAfterMs);
    }
  }
}

async function main(server: string, name: string): Promise<void> {
  const service = connect(server);
  const me = await guest(service, name);
  const matched = await seek(service, me.token);
  const sitting = new Sitting(me.token, matched.match_id, matched.address || server, () =>
    locate(service, me.token, matched.match_id),
  );
  const outcome = await sitting.play();
  const { sequence, attachments } = sitting;
  console.log(JSON.stringify({ match: matched.match_id, seat: matched.seat, ...outcome, sequence, attachments }));
  service.close();
}

main(process.argv[2] ?? "127.0.0.1:7600", process.argv[3] ?? "").catch((error) => {
  console.error(error);
  process.exit(1);
});
