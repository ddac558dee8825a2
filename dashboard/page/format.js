// Figures as people read them.

const grouped = new Intl.NumberFormat("en");
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** rate is a number per second, and any other that may have a fraction: 0, 4.5, 52, 1,234, 45.6k. */
export function rate(v) {
  if (v === null || v === undefined) return "–";
  if (v === 0) return "0";
  if (v < 0.05) return "<0.1";
  if (v < 9.95) return trim(v.toFixed(1));
  if (v < 9999.5) return grouped.format(Math.round(v));
  for (const [unit, letter] of [[1e3, "k"], [1e6, "M"], [1e9, "G"]]) {
    if (v < 999.5 * unit) return trim(v < 99.95 * unit ? (v / unit).toFixed(1) : (v / unit).toFixed(0)) + letter;
  }
  return v.toExponential(1);
}

/** count is a whole number, all of it. */
export function count(v) {
  return grouped.format(v);
}

/** number is a number as it was set, all of it that matters; null is none. */
export function number(v) {
  if (v === null) return "none";
  return grouped.format(Number(v.toPrecision(6)));
}

/** share is a part of the whole in percent: 100 % is all of it and 0 % is none, whatever is rounded. */
export function share(part, whole) {
  if (!(whole > 0) || part === 0) return "0 %";
  const percent = (100 * part) / whole;
  if (percent < 0.1) return "<0.1 %";
  if (percent > 99.9 && percent < 100) return ">99.9 %";
  return (percent < 9.95 || percent > 99 ? trim(percent.toFixed(1)) : percent.toFixed(0)) + " %";
}

const units = [[1e-6, "ns"], [1e-3, "µs"], [1, "ms"], [1e3, "s"]];

/** duration is a measured time of so many ms, with two or three digits; 0 is none. */
export function duration(ms) {
  if (!ms) return "–";
  if (ms >= 100e3) return span(ms);
  const [unit, name] = units.findLast(([u]) => ms >= u * 0.9995) ?? units[0];
  const v = ms / unit;
  return trim(v < 9.995 ? v.toFixed(1) : v.toFixed(0)) + " " + name;
}

const spans = [[3600e3, "h"], [60e3, "min"], [1e3, "s"], [1, "ms"], [1e-3, "µs"]];

/** span is a length of time as it was set, of so many ms: 1 s, 1.5 s, 500 ms, 10 min, 24 h. */
export function span(ms) {
  const [unit, name] = spans.find(([u]) => ms >= u) ?? spans[2];
  return trim((ms / unit).toFixed(2)) + " " + name;
}

/** age is how long ago it was. */
export function age(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 1) return "now";
  if (s < 100) return s + " s ago";
  if (s < 6000) return Math.round(s / 60) + " min ago";
  if (s < 48 * 3600) return Math.round(s / 3600) + " h ago";
  return Math.round(s / 86400) + " d ago";
}

/** time is the time of the day. */
export function time(ms) {
  return clock.format(ms);
}

/** moment is the day and the time of it. */
export function moment(ms) {
  return day.format(ms) + ", " + clock.format(ms);
}

// trim takes the noughts from the end of a fraction.
function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
