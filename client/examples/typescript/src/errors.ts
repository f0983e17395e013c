// What a failed call says: the reason a program branches on, and whether and when to send the same request again.

import path from "node:path";

import { status, type ServiceError } from "@grpc/grpc-js";
import protobuf from "protobufjs";

const root = protobuf.loadSync(path.join(__dirname, "../../proto/status.proto"));
const Status = root.lookupType("google.rpc.Status");
const ErrorInfo = root.lookupType("google.rpc.ErrorInfo");
const RetryInfo = root.lookupType("google.rpc.RetryInfo");

// A broken connection or a stopping server gives these too, without a word of the service.
const TRANSPORT = new Set<number>([status.CANCELLED, status.DEADLINE_EXCEEDED, status.INTERNAL, status.UNKNOWN]);

export interface Failure {
  /** A stable word of docs/api.md; empty when the network spoke and not the service. */
  reason: string;
  metadata: Record<string, string>;
  /** How long to wait before the same request is sent again; undefined when that is of no use. */
  retryAfterMs: number | undefined;
}

/** Reads the details of a status. Branch on `reason`, never on the message. */
export function failureOf(error: unknown): Failure {
  const { code, metadata } = error as ServiceError;
  if (code === undefined) throw error; // not of a call: a bug of ours
  const failure: Failure = { reason: "", metadata: {}, retryAfterMs: undefined };
  const packed = metadata?.get("grpc-status-details-bin")[0];
  const details = packed instanceof Buffer ? Status.toObject(Status.decode(packed)).details : [];
  for (const detail of details ?? []) {
    const kind: string = detail.type_url ?? "";
    if (kind.endsWith("/google.rpc.ErrorInfo")) {
      const info = ErrorInfo.toObject(ErrorInfo.decode(detail.value));
      if (info.domain === "spectacularbid") {
        failure.reason = info.reason;
        failure.metadata = info.metadata ?? {};
      }
    } else if (kind.endsWith("/google.rpc.RetryInfo")) {
      const delay = RetryInfo.toObject(RetryInfo.decode(detail.value), { longs: Number }).retry_delay ?? {};
      failure.retryAfterMs = (delay.seconds ?? 0) * 1000 + (delay.nanos ?? 0) / 1e6;
    }
  }
  if (code === status.UNAVAILABLE || (failure.reason === "" && TRANSPORT.has(code))) {
    failure.retryAfterMs ??= 200 + 300 * Math.random();
  }
  return failure;
}
