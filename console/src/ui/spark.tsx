// A line without axes: how a number went. It begins at zero, so that little looks like little.

const [WIDTH, HEIGHT] = [200, 36];

export function sparkPath(points: number[], width: number, height: number): string {
  const known = points.filter((point) => !Number.isNaN(point));
  if (known.length < 2) return "";
  const most = Math.max(...known) || 1;
  const step = width / (known.length - 1);
  const places = known.map((point, i) => {
    const y = height - 1 - (point / most) * (height - 2);
    return `${(i * step).toFixed(1)} ${y.toFixed(1)}`;
  });
  return `M${places.join("L")}`;
}

export function Spark({ points }: { points: number[] }) {
  const path = sparkPath(points, WIDTH, HEIGHT);
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {path !== "" && <path class="area" d={`${path}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`} />}
      {path !== "" && <path class="line" d={path} />}
    </svg>
  );
}
