// Times as the server writes them: `2025-03-01T09:30:00.123456Z`, 0 to 9 digits of a fraction.
//
// - TM1. What is no such text is NaN, never a guess.

const [DASH, COLON, T, POINT, Z] = [0x2d, 0x3a, 0x54, 0x2e, 0x5a];

/** Seconds since 1970 of the bytes from..to; NaN if they are no time. */
export function timeOf(bytes: Uint8Array, from: number, to: number): number {
  const size = to - from;
  if (size < 20 || bytes[to - 1] !== Z || !isShaped(bytes, from, size)) return NaN;
  const year = number(bytes, from, 4);
  const days = daysOf(year, number(bytes, from + 5, 2), number(bytes, from + 8, 2));
  const hours = number(bytes, from + 11, 2);
  const seconds = (hours * 60 + number(bytes, from + 14, 2)) * 60 + number(bytes, from + 17, 2);
  const digits = size - 21;
  const fraction = digits <= 0 ? 0 : number(bytes, from + 20, digits) / 10 ** digits;
  return days * 86_400 + seconds + fraction;
}

function isShaped(bytes: Uint8Array, from: number, size: number): boolean {
  const dashes = bytes[from + 4] === DASH && bytes[from + 7] === DASH;
  const colons = bytes[from + 13] === COLON && bytes[from + 16] === COLON;
  return dashes && bytes[from + 10] === T && colons && (size === 20 || bytes[from + 19] === POINT);
}

/** The number of some digits; NaN if others are among them. */
function number(bytes: Uint8Array, from: number, digits: number): number {
  let value = 0;
  for (let at = from; at < from + digits; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || 9 < digit) return NaN;
    value = value * 10 + digit;
  }
  return value;
}

/** Days from 1970-01-01 to a day of the Gregorian calendar. */
function daysOf(year: number, month: number, day: number): number {
  // Years that begin with March: the leap day is their last.
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const ofEra = y - era * 400;
  const ofYear = Math.floor((153 * (month + (month <= 2 ? 9 : -3)) + 2) / 5) + day - 1;
  const days = ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + ofYear;
  return era * 146_097 + days - 719_468;
}

/** A time of day and a date, in UTC, as short as the span allows: for axes and legends. */
export function formatTime(seconds: number, span: number): string {
  if (!Number.isFinite(seconds)) return "";
  const text = new Date(Math.round(seconds * 1e3)).toISOString();
  const [date, time] = [text.slice(0, 10), text.slice(11, 23)];
  if (span < 10) return `${date} ${time}`;
  return span < 30 * 86_400 ? `${date} ${time.slice(0, 8)}` : `${date} ${time.slice(0, 5)}`;
}
