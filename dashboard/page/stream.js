// The stream of frames: read, watched, and taken up again when it ends. It is not an EventSource,
// since that tells nothing about why it failed.

import { headers } from "./api.js";
import { shown } from "./dom.js";

const silence = 5000; // a stream that says nothing for so long is dead
const waits = [1, 2, 4, 8, 15]; // seconds before the first try, the second, …

/** follow reads the stream for ever. onFrame gets each frame, when it is done with the one before; onState gets "live", "connecting", or
 * "lost" with the reason and the time of the next try. It returns retry, which ends the waiting for
 * the next try, and restart, which takes the stream up anew: for one who now may see more. */
export function follow({ onFrame, onState }) {
  let tries = 0;
  let wake = () => {};
  let stop = () => {};
  let again = false;
  const live = async (frame) => {
    tries = 0;
    onState("live");
    await onFrame(frame);
  };
  (async () => {
    for (;;) {
      const control = new AbortController();
      again = false;
      stop = () => control.abort();
      const { why, after } = await read(live, control);
      if (again) continue;
      const wait = 1000 * Math.max(after, waits[Math.min(tries++, waits.length - 1)]);
      onState("lost", why, performance.now() + wait);
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, wait);
      });
      onState("connecting");
    }
  })();
  addEventListener("online", () => wake());
  // A page that is left may be kept for coming back to: it must not keep its place among the viewers.
  addEventListener("pagehide", () => stop());
  addEventListener("pageshow", (e) => e.persisted && wake());
  return {
    retry: () => wake(),
    restart: () => {
      again = true;
      stop();
      wake();
    },
  };
}

// read reads one stream to its end, and tells why it ended and how long the server wants to be left
// alone.
async function read(onFrame, control) {
  let watch;
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(() => control.abort(), silence);
  };
  try {
    heard();
    const answer = await fetch("api/v1/events", { signal: control.signal, cache: "no-store", headers: headers({ Accept: "text/event-stream" }) });
    if (!answer.ok) return { why: refusal(answer.status, await answer.json().catch(() => ({}))), after: Number(answer.headers.get("Retry-After")) || 0 };
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { why: "The server ended the connection.", after: 0 };
      heard();
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
        text = text.slice(end + 2);
        try {
          if (data) await onFrame(JSON.parse(data));
        } catch (error) {
          control.abort();
          console.error(error); // a fault of the page, or a frame that makes no sense
          return { why: "What the server sent could not be read.", after: 0 };
        }
      }
    }
  } catch (error) {
    control.abort();
    return { why: error.name === "AbortError" ? "The server has gone silent." : "The server cannot be reached.", after: 0 };
  } finally {
    clearTimeout(watch);
  }
}

// refusal tells why the server does not stream. What comes from a proxy before it has no detail.
function refusal(status, body) {
  if (status === 401 || status === 403) return "The server does not let you look.";
  return typeof body?.detail === "string" ? `The server says: ${shown(body.detail)}.` : `The server answers ${status}.`;
}
