/** Numbers as text, as Python's `format` writes them: exact, and half to even. */

import { Ratio } from "./learning/ratio.ts";

/** So many digits after the point; `grouped`: a comma between thousands. Python's `.2f` and `,.2f`. */
export function formatFixed(value: number, digits: number, options: { grouped?: boolean } = {}): string {
  if (value === Infinity) return "inf";
  const scaled = Ratio.ofNumber(Math.abs(value)).times(new Ratio(10n ** BigInt(digits))).round();
  const text = scaled.toString().padStart(digits + 1, "0");
  const whole = text.slice(0, text.length - digits);
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  return sign + (options.grouped ? grouped(whole) : whole) + (digits ? `.${text.slice(-digits)}` : "");
}

/** So many significant digits, without zeros at the end. Python's `.6g`. */
export function formatGeneral(value: number, digits = 6): string {
  if (value < 0) return `-${formatGeneral(-value, digits)}`;
  if (value === 0) return "0";
  const { significand, exponent } = decimalOf(value, digits);
  if (exponent < -4 || exponent >= digits) return `${withPoint(significand, 1)}${powerText(exponent)}`;
  return exponent < 0 ? withPoint(`${"0".repeat(-exponent)}${significand}`, 1) : withPoint(significand, exponent + 1);
}

/** One digit and a power of ten, of a number above 0. Python's `.0e`. */
export function formatPower(value: number): string {
  const { significand, exponent } = decimalOf(value, 1);
  return `${significand}${powerText(exponent)}`;
}

/** A comma between thousands: Python's `,`. */
export function grouped(value: bigint | number | string): string {
  return String(value).replace(/\B(?=(?:[0-9]{3})+$)/g, ",");
}

/** So many digits of a number above 0, half to even, and the power of ten of the first of them. */
function decimalOf(value: number, digits: number): { significand: string; exponent: number } {
  const exactly = Ratio.ofNumber(value);
  let exponent = Math.floor(Math.log10(value));
  while (exactly.compare(tenTo(exponent)) < 0) exponent -= 1;
  while (exactly.compare(tenTo(exponent + 1)) >= 0) exponent += 1;
  const significand = exactly.over(tenTo(exponent - digits + 1)).round().toString();
  // Rounding up may give one digit more.
  return { significand: significand.slice(0, digits), exponent: exponent + significand.length - digits };
}

function powerText(exponent: number): string {
  return `e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

function tenTo(exponent: number): Ratio {
  const power = 10n ** BigInt(Math.abs(exponent));
  return exponent < 0 ? new Ratio(1n, power) : new Ratio(power);
}

function withPoint(digits: string, at: number): string {
  const decimals = digits.slice(at).replace(/0+$/, "");
  return decimals ? `${digits.slice(0, at)}.${decimals}` : digits.slice(0, at);
}
/** What was said as the rest of a sentence, as one of its own. */
export function asSentence(said: string): string {
  return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
}

// ── case ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Unicode's full case folding, letter by letter: `Straße` becomes `strasse`. */
export function folded(text: string): string {
  return Array.from(text, foldedLetter).join("");
}

/** Letters whose folding is not the lower case of their upper case. Cherokee folds to upper case. */
const CHEROKEE = /[\u13a0-\u13fd\uab70-\uabbf]/u;
const ODD: { readonly [letter: string]: string } = { ı: "ı", ẞ: "ss" };

function foldedLetter(letter: string): string {
  if (letter in ODD) return ODD[letter]!;
  const upper = letter.toUpperCase();
  return CHEROKEE.test(letter) ? upper : upper.toLowerCase();
}
