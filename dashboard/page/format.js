// Figures as people read them.

// Written by hand, for making the formatters of Intl takes longer than all else until the page is seen.
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (v) => String(v).padStart(2, "0");

// grouped is a number with commas between its thousands, and up to three places behind the point.
function grouped(v) {
  if (Number.isInteger(v) && Math.abs(v) < 1000) return String(v);
  if (!(Math.abs(v) < 1e21)) return String(v);
  const [whole, rest] = trim(v.toFixed(Number.isInteger(v) ? 0 : 3)).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? "." + rest : "");
}

/** rate is a number per second, and any other that may have a fraction: 0, 4.5, 52, 1,234, 45.6k. */
export function rate(v) {
  if (v === null || v === undefined) return "–";
  if (v === 0) return "0";
  if (v < 0.05) return "<0.1";
  if (v < 9.95) return trim(v.toFixed(1));
  if (v < 9999.5) return grouped(Math.round(v));
  for (const [unit, letter] of [[1e3, "k"], [1e6, "M"], [1e9, "G"]]) {
    if (v < 999.5 * unit) return trim(v < 99.95 * unit ? (v / unit).toFixed(1) : (v / unit).toFixed(0)) + letter;
  }
  return v.toExponential(1);
}

/** count is a whole number, all of it. */
export function count(v) {
  return grouped(v);
}

/** number is a number as it was set, all of it that matters; null is none. */
export function number(v) {
  if (v === null) return "none";
  return grouped(Number(v.toPrecision(6)));
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

/** lately is so many seconds of the past, after "the last". */
export function lately(seconds) {
  if (seconds > 3540) return "hour";
  if (seconds === 60) return "minute";
  return seconds < 120 ? seconds + " s" : Math.round(seconds / 60) + " min";
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
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** moment is the day and the time of it. */
export function moment(ms) {
  const at = new Date(ms);
  return `${at.getDate()} ${months[at.getMonth()]} ${at.getFullYear()}, ${time(ms)}`;
}

// trim takes the noughts from the end of a fraction.
function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
