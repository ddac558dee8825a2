// Requests to the server, and what it says when it refuses.

/** A Problem is an answer that is not the one that was asked for. */
export class Problem extends Error {
  constructor(status, body, challenge) {
    super(body.detail || body.title || `the server answers ${status}`);
    this.status = status;
    this.faults = body.faults ?? [];
    this.current = body.current;
    this.wantsToken = status === 401 && /^bearer\b/i.test(challenge ?? "");
  }
}

// The token is kept nowhere but here, and so until the page is left.
let token = "";

/** useToken sends a token along with what comes, in UTF-8: fetch takes a header byte by byte. */
export function useToken(text) {
  token = String.fromCharCode(...new TextEncoder().encode(text));
}

/** headers are those of every request. */
export function headers(more = {}) {
  return token ? { ...more, Authorization: "Bearer " + token } : more;
}

/** request asks the API. The answer is what it sends, null if that is nothing. It throws a Problem, or
 * a TypeError without a connection. */
export async function request(path, { method = "GET", body, version, signal } = {}) {
  const more = {};
  if (body !== undefined) more["Content-Type"] = "application/json";
  if (version !== undefined) more["If-Match"] = `"${version}"`;
  const answer = await fetch("api/v1/" + path, {
    method, signal, cache: "no-store", headers: headers(more), body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})), answer.headers.get("WWW-Authenticate"));
  return answer.status === 204 ? null : answer.json();
}

/** query is a name for the query of a URL: names that are not UTF-8 come with it. */
export function query(name, raw) {
  return raw ?? encodeURIComponent(name);
}
