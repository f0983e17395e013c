// Where your own play goes: a question in, a command out. No rule of the game is needed: `legal` is complete.

import type { Command } from "../generated/spectacularbid/match/v1/Command";
import type { Prompt__Output } from "../generated/spectacularbid/match/v1/Prompt";

/** The first legal thing; undefined when nothing is asked of this seat. */
export function choose(prompt: Prompt__Output): Command | undefined {
  const legal = prompt.legal;
  if (!legal) return undefined;
  const play = legal.plays[0];
  if (play) return { play: play.end ? { tile: play.tile, end: play.end } : { tile: play.tile } };
  if (legal.start) return { start: {} };
  if (legal.continue_round) return { continue_round: {} };
  if (legal.draw) return { draw: {} };
  if (legal.pass_turn) return { pass_turn: {} };
  if (legal.accept) return { accept: {} };
  if (legal.decline) return { decline: {} };
  return undefined;
}
