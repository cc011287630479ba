// Times are those of the calendar, and what is no time is none.

import { expect, test } from "vitest";
import { formatTime, timeOf } from "../../src/data/time";

const at = (text: string) => timeOf(new TextEncoder().encode(text), 0, text.length);

test("times are those that the browser reads", () => {
  for (const text of [
    "1970-01-01T00:00:00Z",
    "2024-02-29T23:59:59Z",
    "2000-12-31T12:30:01Z",
    "1900-03-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
  ]) {
    expect(at(text), text).toBe(Date.parse(text) / 1_000);
  }
  expect(at("2025-03-01T00:00:00.123456Z")).toBeCloseTo(
    Date.parse("2025-03-01T00:00:00Z") / 1_000 + 0.123456,
    6,
  );
  expect(at("2025-03-01T00:00:00.123456789Z")).toBeCloseTo(1740787200.1234568, 6);
});

test("what is no time is NaN (TM1)", () => {
  for (const text of [
    "",
    "2025-03-01",
    "2025-03-01 00:00:00Z",
    "x025-03-01T00:00:00Z",
    "2025-03-01T00:00:00",
    "2025-03-01T00:00:00,1Z",
  ]) {
    expect(at(text), `TM1: ${text}`).toBeNaN();
  }
});

test("a time is written as short as the span allows", () => {
  expect(formatTime(1740821400.25, 5)).toBe("2025-03-01 09:30:00.250");
  expect(formatTime(1740821400, 86_400)).toBe("2025-03-01 09:30:00");
  expect(formatTime(1740821400, 400 * 86_400)).toBe("2025-03-01 09:30");
});
