// Icons, drawn here: strokes on a grid of sixteen, in the colour of the text around them.

const PATHS = {
  play: "M5 3.5v9l7-4.500z",
  stop: "M4.500 4.500h7v7h-7z",
  plus: "M8 3.500v9M3.500 8h9",
  close: "M4.500 4.500l7 7M11.500 4.500l-7 7",
  search: "M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300l3.200 3.200",
  table: "M2.500 3.500h11v9h-11zM2.500 6.500h11M6.500 6.500v6",
  chart: "M2.500 13.500h11M3 10.500l3.200-3.500 2.600 2.200L13 4",
  clock: "M8 13.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11zM8 5v3.200l2.200 1.300",
  right: "M6 4l4 4-4 4",
  refresh: "M13 8a5 5 0 1 1-1.500-3.600M13 2.500v2.700h-2.700",
  upload: "M8 10.500v-7M5 6l3-3 3 3M3 10.500v2.500h10v-2.500",
  download: "M8 3v7M5 7.500l3 3 3-3M3 10.500v2.500h10v-2.500",
  sun: "M8 10.800a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600zM8 1.800v1.400M8 12.800v1.400M1.800 8h1.400M12.800 8h1.400M3.600 3.600l1 1M11.400 11.400l1 1M3.600 12.400l1-1M11.400 4.600l1-1",
  moon: "M13 9.700A5.500 5.500 0 0 1 6.300 3 5.500 5.500 0 1 0 13 9.700z",
  auto: "M8 13.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11zM8 2.500v11M8 4.500h3.500M8 7h5M8 9.500h5M8 12h3.500",
  keys: "M2 4.500h12v7H2zM4.500 7h.01M7 7h.01M9.500 7h.01M12 7h.01M5 9.300h6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
