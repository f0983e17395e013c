// The services of one address, typed from the protos.

import { readFileSync } from "node:fs";
import path from "node:path";

import { credentials, loadPackageDefinition, Metadata, type ChannelOptions } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

import type { ProtoGrpcType as Guests } from "../generated/guest_service";
import type { ProtoGrpcType as Matches } from "../generated/match_service";
import type { ProtoGrpcType as Matchmaking } from "../generated/matchmaking_service";

const CLIENT = path.join(__dirname, "../../../.."); // from dist/src to the folder `client`

const protos = loadPackageDefinition(
  loadSync(
    [
      "spectacularbid/identity/v1/guest_service.proto",
      "spectacularbid/matchmaking/v1/matchmaking_service.proto",
      "spectacularbid/match/v1/match_service.proto",
    ],
    {
      includeDirs: [path.join(CLIENT, "../protos")],
      keepCase: true,
      longs: Number,
      enums: String,
      defaults: true,
      oneofs: true,
    },
  ),
) as unknown as Guests & Matches & Matchmaking;

const OPTIONS: ChannelOptions = {
  // What is safe to repeat is repeated by the channel; see the file.
  "grpc.service_config": readFileSync(path.join(CLIENT, "service_config.json"), "utf8"),
  // A dead connection is noticed within 17 s even on a quiet stream.
  "grpc.keepalive_time_ms": 12_000,
  "grpc.keepalive_timeout_ms": 5_000,
  // The player's clock runs while we are not connected.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
};

/** Stubs for `host:port`. Connections are made when they are first used. */
export function connect(address: string) {
  const how = credentials.createInsecure();
  const { identity, matchmaking, match } = protos.spectacularbid;
  const stubs = {
    guests: new identity.v1.GuestService(address, how, OPTIONS),
    matchmaking: new matchmaking.v1.MatchmakingService(address, how, OPTIONS),
    matches: new match.v1.MatchService(address, how, OPTIONS),
  };
  return { ...stubs, close: () => Object.values(stubs).forEach((stub) => stub.close()) };
}

/** What goes with every call. */
export function bearer(token: string): Metadata {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  return metadata;
}
