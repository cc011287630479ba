// Icons, drawn here: strokes on a grid of sixteen, in the colour of the text around them.

const PATHS = {
  play: "M5 3.5v9l7-4.5z",
  stop: "M4.5 4.5h7v7h-7z",
  plus: "M8 3.5v9M3.5 8h9",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
  chart: "M2.5 13.5h11M3 10.5l3.2-3.5 2.6 2.2L13 4",
  clock: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM8 5v3.2l2.2 1.3",
  right: "M6 4l4 4-4 4",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v2.7h-2.7",
  upload: "M8 10.5v-7M5 6l3-3 3 3M3 10.5v2.5h10v-2.5",
  download: "M8 3v7M5 7.5l3 3 3-3M3 10.5v2.5h10v-2.5",
  sun:
    "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.8v1.4M8 12.8v1.4" +
    "M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M3.6 12.4l1-1M11.4 4.6l1-1",
  moon: "M13 9.7A5.5 5.5 0 0 1 6.3 3 5.5 5.5 0 1 0 13 9.7z",
  auto:
    "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM8 2.5v11M8 4.5h3.5" + "M8 7h5M8 9.5h5M8 12h3.5",
  keys: "M2 4.5h12v7H2zM4.5 7h.01M7 7h.01M9.5 7h.01M12 7h.01M5 9.3h6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
