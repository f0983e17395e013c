// One match, played to its end: nothing is lost, nothing is done twice, however often the connection breaks.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { choose } from "./choose";
import { Deals } from "./deals";
import { failureOf } from "./errors";
import { bearer, connect } from "./service";

import type { Answer__Output } from "../generated/spectacularbid/match/v1/Answer";
import type { Outcome__Output } from "../generated/spectacularbid/match/v1/Outcome";
import type { PlayRequest } from "../generated/spectacularbid/match/v1/PlayRequest";
import type { Prompt__Output } from "../generated/spectacularbid/match/v1/Prompt";
import type { SubmitRequest } from "../generated/spectacularbid/match/v1/SubmitRequest";
import type { WatchResponse__Output } from "../generated/spectacularbid/match/v1/WatchResponse";

const SILENCE_MS = 15_000; // a quiet stream has a heartbeat every 5 s

// The question was settled while the answer was on its way.
const OVERTAKEN = new Set([
  "STALE_DECISION",
  "ALREADY_PRESSED",
  "MATCH_OVER",
  "CLOCK_EXPIRED",
  "START_NOT_DUE",
  "CONTINUE_NOT_DUE",
  "ROUND_SETTLED",
  "AWAITING_DEAL",
]);

/** What a client keeps of a match: where it is, the last event it has, its unanswered commands, how it ended. */
export class Sitting {
  outcome: Outcome__Output | undefined;
  sequence = 0;
  /** How often the stream was opened. */
  attachments = 0;
  private answered = 0;
  private readonly unanswered = new Map<string, SubmitRequest>();
  private readonly deals = new Deals();

  constructor(
    private readonly token: string,
    private readonly matchId: string,
    private address: string,
    private readonly locate: () => Promise<string>,
  ) {}

  /** Plays to the end of the match. */
  async play(): Promise<Outcome__Output> {
    let heard = 0; // the last number when a stream was last lost
    while (!this.outcome) {
      let pauseMs = 200;
      try {
        await this.attach();
      } catch (error) {
        if (this.outcome) break;
        const failure = failureOf(error);
        if (failure.reason === "WRONG_ADDRESS") this.address = failure.metadata.address || this.address;
        else if (failure.retryAfterMs === undefined) throw error;
        else if (heard === this.sequence) this.address = (await this.locate()) || this.address; // lost twice in a row
        heard = this.sequence;
        pauseMs = failure.retryAfterMs ?? pauseMs;
      }
      if (!this.outcome) await sleep(pauseMs);
    }
    return this.outcome;
  }

  /** One stream, from its beginning to its end: go on behind the last event, and send what has no answer again. */
  private async attach(): Promise<void> {
    this.attachments += 1;
    const service = connect(this.address);
    const stream = service.matches.Play(bearer(this.token));
    const send = (message: PlayRequest) => stream.writable && stream.write(message);
    const silence = setTimeout(() => stream.cancel(), SILENCE_MS);
    try {
      send({ join: { match_id: this.matchId, resume_after: this.sequence } });
      for (const submit of this.unanswered.values()) send({ submit });
      for await (const message of stream) {
        silence.refresh();
        for (const answer of message.answers) {
          const again = this.hearAnswer(answer);
          if (again) setTimeout(() => send({ submit: again }), answer.refused?.retry_after_ms);
        }
        if (!message.news) continue;
        const submit = this.hear(message.news);
        if (submit) send({ submit });
        if (message.news.reconnect) {
          this.address = message.news.reconnect.address || this.address;
          return;
        }
      }
    } finally {
      clearTimeout(silence);
      stream.cancel();
      service.close();
    }
  }

  /** Read in this order: snapshot, events, prompt. Returns a command when something is asked. */
  private hear(news: WatchResponse__Output): SubmitRequest | undefined {
    let prompt: Prompt__Output | null = news.prompt;
    if (news.snapshot) {
      this.sequence = news.snapshot.sequence;
      this.outcome = news.snapshot.table?.outcome ?? undefined;
      prompt ??= news.snapshot.table?.prompt ?? null;
      if (news.snapshot.table) this.deals.table(news.snapshot.table);
    }
    for (const event of news.events) {
      if (event.sequence !== this.sequence + 1) throw new Error(`event ${event.sequence} after ${this.sequence}`);
      this.sequence = event.sequence;
      const press = event.started ?? event.continued;
      if (press) this.deals.pressed(press.seat, press.contribution);
      if (event.hand_dealt) this.deals.dealt(event.hand_dealt);
      if (event.match_ended?.outcome) this.outcome = event.match_ended.outcome;
    }
    if (!prompt || prompt.decision_id === this.answered) return undefined;
    const command = choose(prompt);
    if (!command) return undefined;
    this.answered = prompt.decision_id;
    const submit = { request_id: randomUUID(), decision_id: prompt.decision_id, command: this.deals.addTo(command) };
    this.unanswered.set(submit.request_id, submit);
    return submit;
  }

  /** Returns the command when it must be sent again after a while. */
  private hearAnswer(answer: Answer__Output): SubmitRequest | undefined {
    const { refused, request_id } = answer;
    if (refused && refused.retry_after_ms > 0) return this.unanswered.get(request_id);
    this.unanswered.delete(request_id);
    if (refused && !OVERTAKEN.has(refused.reason_word)) {
      throw new Error(`refused: ${refused.message} (rule ${refused.rule})`);
    }
    return undefined;
  }
}
