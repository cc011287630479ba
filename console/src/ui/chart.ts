// Lines over time: uPlot, given as many points as the screen shows, and new ones for each zoom.
//
// - CH1. Zooming asks the rows again: what is seen is always drawn from all points in sight.

import uPlot from "uplot";
import { drawn, extent, type Line } from "../data/series";
import { formatTime } from "../data/time";
import { short } from "../data/format";

const ZOOM = 0.8;
/** Of seconds: below that, the points of microseconds are beside each other. */
const SPAN_MIN = 1e-6;
const LIGHT = [
  "#0f766e",
  "#c2410c",
  "#4f46e5",
  "#a16207",
  "#be185d",
  "#0369a1",
  "#4d7c0f",
  "#7e22ce",
  "#b91c1c",
  "#57534e",
  "#0e7490",
  "#9f1239",
];
const DARK = [
  "#4fd1c0",
  "#fb923c",
  "#a5a1ff",
  "#facc15",
  "#f472b6",
  "#60b8ff",
  "#a3e635",
  "#d39bff",
  "#f87171",
  "#b8b0a8",
  "#22d3ee",
  "#fda4af",
];

const [DAY, MINUTE] = [86_400, 60];
const DATE = "{YYYY}-{MM}-{DD}";

/** From which step between two labels on which text is written, and which one below it where the
 * day, or year, is another than that of the label before. */
const TIME_LABELS: uPlot.Axis.Values = [
  [365 * DAY, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * DAY, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [DAY, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [MINUTE, "{HH}:{mm}", `\n${DATE}`, null, `\n${DATE}`, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", `\n${DATE}`, null, `\n${DATE}`, null, null, null, 1],
  [
    1e-3,
    "{ss}.{fff}",
    `\n${DATE} {HH}:{mm}`,
    null,
    `\n${DATE} {HH}:{mm}`,
    null,
    `\n{HH}:{mm}`,
    null,
    1,
  ],
];

export class Chart {
  private plot: uPlot | null = null;
  private lines: Line[] = [];
  private whole: [number, number] = [0, 1];
  private seen: [number, number] = [0, 1];
  private readonly observer = new ResizeObserver(() => this.fit());

  constructor(private readonly host: HTMLElement) {
    this.observer.observe(host);
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  show(lines: Line[], isDark: boolean): void {
    this.plot?.destroy();
    this.plot = null;
    this.lines = lines;
    const [low, high] = extent(lines);
    if (!Number.isFinite(low)) return;
    // One instant has no width.
    this.whole = low === high ? [low - 1, high + 1] : [low, high];
    this.seen = this.whole;
    this.plot = new uPlot(this.options(isDark), this.points(), this.host);
    // The height of the legend is known when it has been laid out.
    requestAnimationFrame(() => this.fit());
  }

  /** Shows all of the time again. */
  reset(): void {
    this.zoomTo(...this.whole);
  }

  private points(): uPlot.AlignedData {
    const slivers = Math.max(200, this.host.clientWidth);
    return drawn(this.lines, ...this.seen, slivers) as uPlot.AlignedData;
  }

  private zoomTo(low: number, high: number): void {
    const [first, last] = this.whole;
    const span = Math.max(SPAN_MIN, Math.min(high - low, last - first));
    const from = Math.max(first, Math.min(low, last - span));
    this.seen = [from, from + span];
    this.plot?.setData(this.points()); // CH1
  }

  private fit(): void {
    const { plot, host } = this;
    if (!plot || host.clientWidth === 0) return;
    const legend = plot.root.querySelector<HTMLElement>(".u-legend")?.offsetHeight ?? 0;
    const size = { width: host.clientWidth, height: Math.max(120, host.clientHeight - legend - 8) };
    if (size.width !== plot.width || size.height !== plot.height) plot.setSize(size);
  }

  private options(isDark: boolean): uPlot.Options {
    const style = getComputedStyle(this.host);
    const [text, grid] = [style.getPropertyValue("--muted"), style.getPropertyValue("--line")];
    const font = `11px ${style.getPropertyValue("--sans")}`;
    const colours = isDark ? DARK : LIGHT;
    const axis = {
      stroke: text,
      font,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1, size: 4 },
    };
    return {
      width: Math.max(200, this.host.clientWidth),
      height: Math.max(120, this.host.clientHeight - 34),
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      padding: [12, 18, 0, 4],
      cursor: {
        drag: { x: true, y: false, uni: 20, setScale: false },
        bind: { dblclick: () => () => (this.reset(), null) },
        points: { size: 7 },
      },
      legend: { live: true },
      scales: { x: { time: true, range: () => this.seen } },
      axes: [
        { ...axis, space: 90, values: TIME_LABELS },
        {
          ...axis,
          size: 58,
          values: (_, values) => values.map((value) => axisNumber(value, values)),
        },
      ],
      series: [
        {
          label: "time",
          value: (_, seconds) =>
            seconds === null ? "" : formatTime(seconds, this.seen[1] - this.seen[0]),
        },
        ...this.lines.map(({ label }, i) => ({
          label,
          stroke: colours[i % colours.length]!,
          width: 1.5,
          points: { size: 4 },
          value: (_: uPlot, value: number | null) => (value === null ? "" : legendNumber(value)),
        })),
      ],
      hooks: {
        setSelect: [(plot) => this.onSelect(plot)],
        ready: [
          (plot) =>
            plot.over.addEventListener("wheel", (event) => this.onWheel(event), { passive: false }),
        ],
      },
    };
  }

  private onSelect(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [low, high] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomTo(low, high);
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault();
    const plot = this.plot!;
    const at = plot.posToVal(plot.cursor.left ?? 0, "x");
    const factor = event.deltaY < 0 ? ZOOM : 1 / ZOOM;
    const [low, high] = this.seen;
    this.zoomTo(at - (at - low) * factor, at + (high - at) * factor);
  }
}

function axisNumber(value: number, all: number[]): string {
  if (value === null) return "";
  const most = Math.max(...all.map(Math.abs));
  if (10_000 <= most) return short(value);
  const step = Math.abs((all[1] ?? 0) - (all[0] ?? 0)) || 1;
  return value.toFixed(digitsOf(step));
}

/** Digits behind the point that a step needs: none for 20, one for 2.5. */
export function digitsOf(step: number): number {
  let digits = 0;
  while (
    digits < 12 &&
    1e-6 < Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) / (step * 10 ** digits)
  )
    digits += 1;
  return digits;
}

function legendNumber(value: number): string {
  return Number.isInteger(value)
    ? value.toLocaleString("en-US")
    : String(Number(value.toPrecision(9)));
}
