// Numbers of /metrics, in the text form of Prometheus.

/** The sum over all labels of each metric; histograms are left out. */
export function parseMetrics(text: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const space = line.lastIndexOf(" ");
    const brace = line.indexOf("{");
    const name = line.slice(0, brace < 0 ? space : brace).replace(/^tidegate_/, "");
    if (name.endsWith("_bucket")) continue;
    const value = Number(line.slice(space + 1));
    if (Number.isFinite(value)) values.set(name, (values.get(name) ?? 0) + value);
  }
  return values;
}

/** How fast a counter grew between two times; NaN if it began anew in between. */
export function rate(before: number, after: number, ms: number): number {
  return after < before || ms <= 0 ? NaN : ((after - before) * 1_000) / ms;
}
