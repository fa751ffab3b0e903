// Talks to the service: the token, errors as their one sentence, and progress as it comes. Draws nothing.

const KEY = "derender-token";
let token = sessionStorage.getItem(KEY) || "";

export function setToken(value) {
  token = value;
  sessionStorage.setItem(KEY, value);
}

/** What the service answered instead of a result; `message` is its sentence. */
export class ServiceError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** fetch with the token; throws ServiceError for anything but success. */
export async function call(path, options = {}) {
  const headers = new Headers(options.headers);
  // A header takes Latin-1 only: what cannot be sent cannot be the token.
  if (token && /^[\x20-\x7e]+$/.test(token)) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "unreachable", "The service cannot be reached: is it still running?");
  }
  if (response.ok) return response;
  let problem = null;
  try {
    problem = (await response.json()).error;
  } catch {
    // an answer of a proxy, not of the service
  }
  throw new ServiceError(
    response.status,
    problem?.code ?? "http",
    problem?.message ? sentence(problem.message) : `The service answered with status ${response.status}.`,
  );
}

export function sentence(text) {
  const trimmed = text.trim();
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

export const getJson = async (path, options) => (await call(path, options)).json();
export const getText = async (path, options) => (await call(path, options)).text();
export const getBlob = async (path, options) => (await call(path, options)).blob();

export function postJson(path, body, options = {}) {
  const headers = { "Content-Type": "application/json" };
  return getJson(path, { ...options, method: "POST", headers, body: JSON.stringify(body) });
}

/** Hands a document over; returns the job. The document is kept with the job, for its pictures. */
export function submit(file, { mode, pages, password }, signal) {
  const form = new FormData();
  form.set("file", file, file.name || "document");
  form.set("keep_input", "true");
  form.set("tokens", "true");
  form.set("mode", mode);
  if (pages) form.set("pages", pages);
  if (password) form.set("password", password);
  return getJson("/v1/jobs", { method: "POST", body: form, signal });
}

/** Calls onChange with the job at each change; returns it once it has ended, or null when it was deleted. EventSource
 * cannot send a token, so the stream is read here. */
export async function follow(id, onChange, signal) {
  for (;;) {
    const job = await followOnce(id, onChange, signal);
    if (job === null || ["done", "failed", "cancelled"].includes(job.status)) return job;
    await new Promise((resolve) => setTimeout(resolve, 1000)); // the stream was cut: ask again
  }
}

async function followOnce(id, onChange, signal) {
  const response = await call(`/v1/jobs/${id}/events`, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let job = { status: "queued" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return job;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (event.startsWith("event: deleted")) return null;
        const data = event.split("\n").find((line) => line.startsWith("data: "));
        if (!data) continue;
        job = JSON.parse(data.slice(6));
        onChange(job);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return job;
  }
}
