// What this client adds to the deals, and whether they are made as the service has committed to: docs/api.md, "Deals".

import { randomBytes } from "node:crypto";

import type { Command } from "../generated/spectacularbid/match/v1/Command";
import type { HandDealt__Output } from "../generated/spectacularbid/match/v1/HandDealt";
import type { Table__Output } from "../generated/spectacularbid/match/v1/Table";

export class Deals {
  private round = 0;
  private north = true;
  private readonly announced = new Map<number, string>();
  private readonly added = new Map<number, Buffer>();
  private told = new Map<string, Buffer>();

  /** A snapshot: which round comes next, and what the service has committed to for it. */
  table(table: Table__Output): void {
    this.round = table.round;
    this.north = table.seat === "SEAT_NORTH";
    this.announce(table.round + 1, table.next_commitment);
    for (const seat of table.pressed) {
      this.pressed(seat, seat === "SEAT_NORTH" ? table.contributions?.north : table.contributions?.south);
    }
  }

  /** Somebody pressed Start or Continue: what it adds is told at once, and cannot be changed any more. */
  pressed(seat: string, contribution: Buffer | undefined): void {
    this.told.set(seat, contribution ?? Buffer.alloc(0));
  }

  /** Adds fresh random bytes to Start or Continue. Keep the command: sent again, it must be the same. */
  addTo(command: Command): Command {
    const contribution = randomBytes(32);
    if (command.start) command.start = { contribution };
    else if (command.continue_round) command.continue_round = { contribution };
    else return command;
    this.added.set(this.round + 1, contribution);
    return command;
  }

  /** A round was dealt. Throws when not from the seed that was committed to, or not with what this client has added. */
  dealt(told: HandDealt__Output): void {
    this.round = told.round;
    this.announce(told.round + 1, told.next_commitment);
    if (told.scripted) {
      this.told = new Map();
      return; // of a test configuration
    }
    const { told: pressed } = this;
    this.told = new Map();
    for (const [seat, contribution] of pressed) {
      const counted = seat === "SEAT_NORTH" ? told.contributions?.north : told.contributions?.south;
      if (counted && !contribution.equals(counted)) {
        throw new Error(`round ${told.round} was not dealt with what ${seat} had added`);
      }
    }
    const announced = this.announced.get(told.round);
    if (!announced || !told.contributions || told.commitment !== announced) {
      throw new Error(`round ${told.round} was not dealt from the seed that had been committed to`);
    }
    // Nothing, when the service pressed for us because we were late.
    const counted = this.north ? told.contributions?.north : told.contributions?.south;
    const added = this.added.get(told.round);
    if (counted?.length && added && !added.equals(counted)) {
      throw new Error(`round ${told.round} was not dealt with what this client had added`);
    }
  }

  private announce(round: number, commitment: string): void {
    if (commitment) this.announced.set(round, this.announced.get(round) ?? commitment);
  }
}
