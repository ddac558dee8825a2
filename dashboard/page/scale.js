// The arithmetic of a chart's axes, which knows no drawing.

/** ticks returns an upper end that is at least v, and the round numbers up to it: 1, 2 or 5 times a
 * power of ten apart, about so many. least is what the end is at least. */
export function ticks(v, about = 4, least = 1) {
  const top = Math.max(v, least);
  const power = 10 ** Math.floor(Math.log10(top / about));
  const step = power * [1, 2, 5, 10].find((m) => (top / about) * 0.999 <= m * power);
  const at = [];
  for (let i = 0; i <= Math.ceil(top / step - 1e-9); i++) at.push(Number((i * step).toPrecision(12)));
  return { top: at.at(-1), at };
}

/** reach returns the value that an axis must reach: the highest of the data, those lines above it
 * that can be shown without pressing the data flat, and those that must be shown. */
export function reach(data, lines, must = []) {
  const most = Math.max(0, ...data);
  return Math.max(most, ...must, ...lines.filter((v) => v <= 2.5 * most || most === 0));
}

/** apart moves labels at heights y, top first, so that none is closer than gap to the next, and all are
 * within low and high. */
export function apart(y, gap, low, high) {
  const order = y.map((_, i) => i).sort((a, b) => y[a] - y[b]);
  const out = [...y];
  let last = low - gap;
  for (const i of order) last = out[i] = Math.max(y[i], last + gap);
  let next = high + gap;
  for (const i of order.reverse()) next = out[i] = Math.min(out[i], next - gap);
  return out;
}
