// Wires the page: from a file to a job, from a job to what is shown. The parts are in modules of their own.

import { ServiceError, call, follow, getJson, getText, sentence, setToken, submit } from "./api.js";
import { Editor } from "./editor.js";
import { markRegions, forget, readable, showPages } from "./pages.js";
import { ReplayDialog } from "./replay.js";
import { doubtSentence, markBlocks, showBlocks } from "./text.js";
import { listenForFiles } from "./upload.js";

const $ = (id) => document.getElementById(id);
const replay = new ReplayDialog();
const editor = new Editor({ area: $("markdown"), preview: $("preview"), revert: $("revert"), note: $("text-note") }, problem);
const shown = { job: null, name: "document", following: null, told: 0 };
const PAUSE = 10_000; // ms between two announcements of progress: one for each page would drown all else

/** start, token, reading or result: what is on the screen. */
function state(name) {
  document.body.dataset.state = name;
  $("start").hidden = name !== "start";
  $("token-form").hidden = name !== "token";
  $("reading").hidden = name !== "reading";
  $("result").hidden = name !== "result";
  $("another").hidden = name === "start" || name === "token";
  $("file-name").hidden = name !== "reading" && name !== "result";
}

function problem(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    askForToken();
    return;
  }
  const known = error instanceof ServiceError || typeof error === "string";
  $("problem-text").textContent = known ? (error.message ?? error) : `The page has a fault: ${error.message}`;
  $("problem").hidden = false;
}

function noProblem() {
  $("problem").hidden = true;
}

function askForToken() {
  state("token");
  $("token").focus();
}

/** Asks for the token first where one is needed, then shows the job of the address, if any. */
async function begin() {
  noProblem();
  try {
    await call("/v1/models");
  } catch (error) {
    problem(error);
    if (error.status === 401) return;
  }
  const found = /^#job=([0-9a-f]{32})$/.exec(location.hash);
  if (found) await watch(found[1], anew());
  else state("start");
}

async function take(file) {
  if (document.body.dataset.state === "token" || !mayLeave()) return;
  noProblem();
  leave();
  const { signal } = shown.following;
  $("file-name").textContent = file.name;
  tell("The document is being sent …");
  $("progress").removeAttribute("value");
  state("reading");
  $("reading-title").focus();
  try {
    const options = { mode: $("mode").value, pages: $("range").value.trim(), password: $("password").value };
    const job = await submit(file, options, signal);
    history.replaceState(null, "", `#job=${job.id}`);
    await watch(job.id, signal);
  } catch (error) {
    if (!signal.aborted) giveUp(error);
  }
}

/** Follows a job to its end and shows what it left. Does nothing more once `signal` is aborted. */
async function watch(id, signal) {
  shown.job = id;
  state("reading");
  try {
    const job = await follow(id, showProgress, signal);
    if (signal.aborted) return;
    if (job === null || job.status === "cancelled") throw new ServiceError(404, "gone", "The document was taken back.");
    if (job.status === "failed") throw new ServiceError(422, job.error.code, reason(job));
    await showResult(job, signal);
  } catch (error) {
    if (!signal.aborted) giveUp(error);
  }
}

function giveUp(error) {
  leave();
  state("start");
  $("file").focus();
  problem(error);
}

/** The service knows a document by its name without the suffix, people know their file. */
function reason(job) {
  const stem = job.name.replace(/\.[^.]*$/, "");
  const { message } = job.error;
  return sentence(message.startsWith(`${stem} `) ? `“${job.name}” ${message.slice(stem.length + 1)}` : message);
}

/** Shows how far the reading is, and says it now and then. */
function tell(text) {
  $("progress-text").textContent = text;
  if (performance.now() < shown.told + PAUSE) return;
  shown.told = performance.now();
  $("progress-said").textContent = text;
}

function showProgress(job) {
  $("file-name").textContent = job.name;
  const { page_count: count, pages_done: done } = job;
  if (count) {
    $("progress").max = count;
    $("progress").value = done;
    tell(`${done} of ${count} ${count === 1 ? "page is" : "pages are"} read.`);
  } else {
    $("progress").removeAttribute("value");
    tell(job.status === "queued" ? "Waiting for its turn …" : "The first page is being read …");
  }
}

async function showResult(job, signal) {
  const base = `/v1/jobs/${job.id}`;
  const [parsed, blocks, markdown] = await Promise.all([
    getJson(`${base}/result?format=json`, { signal }),
    getJson(`${base}/blocks`, { signal }),
    getText(`${base}/result?format=md`, { signal }),
  ]);
  shown.name = job.name.replace(/\.[^.]*$/, "") || "document";
  const regions = new Map(parsed.pages.flatMap((page) => page.regions.map((region) => [region.id, { region, page }])));
  const open = (id, opener) => {
    const { region, page } = regions.get(id);
    if (readable(region)) replay.open(job.id, region, page, opener);
    else $("pages-hint").textContent = `This ${region.type} is kept as a picture: there is no text to decode.`;
  };
  showPages($("pages"), job.id, parsed, (region, page, button) => open(region.id, button), (region) => markBlocks($("blocks"), region?.id ?? null));
  showBlocks(
    $("blocks"),
    blocks,
    (id) => regions.has(id) && readable(regions.get(id).region),
    open,
    (ids) => markRegions($("pages"), ids),
  );
  $("doubts").textContent = doubtSentence($("blocks"), blocks);
  $("text-note").textContent = "";
  $("pages-hint").textContent = "Choose a region to watch it being read.";
  editor.load(markdown);
  tab("read");
  document.title = `${job.name} – derender`;
  state("result");
  const troubles = [...(parsed.errors ?? []), ...parsed.pages.flatMap((page) => page.errors ?? [])];
  if (job.document_status === "partial") problem(sentence(troubles[0] ?? "Some of the document could not be read"));
  $("result").focus({ preventScroll: true });
}

/** Ends what is being sent, read or watched, and returns the signal of what comes next. */
function anew() {
  shown.following?.abort();
  shown.following = new AbortController();
  shown.job = null;
  shown.told = -PAUSE;
  forget();
  replay.forget();
  editor.load("");
  document.title = "derender";
  return shown.following.signal;
}

/** Leaves the document that is shown or being read. */
function leave() {
  anew();
  history.replaceState(null, "", location.pathname);
}

/** Whether the document may go: changes to its Markdown are nowhere but here. */
function mayLeave() {
  return !editor.edited || confirm("Your changes to the Markdown will be lost. Go on?");
}

function tab(name) {
  for (const each of ["read", "edit"]) {
    const on = each === name;
    $(`tab-${each}`).setAttribute("aria-selected", String(on));
    $(`tab-${each}`).tabIndex = on ? 0 : -1;
    $(`${each}-panel`).hidden = !on;
  }
  if (name === "edit") editor.render();
}

function pane(name) {
  for (const each of ["pages", "text"]) $(`show-${each}`).setAttribute("aria-pressed", String(each === name));
  $("result").dataset.pane = name;
}

for (const name of ["read", "edit"]) {
  $(`tab-${name}`).addEventListener("click", () => tab(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const other = name === "read" ? "edit" : "read";
    tab(other);
    $(`tab-${other}`).focus();
  });
}
for (const name of ["pages", "text"]) $(`show-${name}`).addEventListener("click", () => pane(name));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the job
  pane("text");
  ($("result").hidden ? $("file") : $("text-pane")).focus();
});
$("problem-close").addEventListener("click", noProblem);
$("copy").addEventListener("click", () => editor.copy());
$("download").addEventListener("click", () => editor.download(shown.job, shown.name, $("format").value));
$("another").addEventListener("click", () => {
  if (!mayLeave()) return;
  noProblem();
  leave();
  state("start");
  $("file").focus();
});
$("cancel").addEventListener("click", async () => {
  const id = shown.job;
  leave();
  state("start");
  $("file").focus();
  if (id) await call(`/v1/jobs/${id}`, { method: "DELETE" }).catch(problem);
});
$("fields").addEventListener("submit", (event) => event.preventDefault()); // Enter in a field sends nothing
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken($("token").value.trim());
  $("token").value = "";
  begin().then(() => {
    if (document.body.dataset.state === "token") problem("The service does not know this token.");
  });
});
addEventListener("beforeunload", (event) => {
  if (editor.edited) event.preventDefault(); // the browser asks
});
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#job=") && location.hash !== `#job=${shown.job}`) begin();
});
listenForFiles($("file"), take, problem);
pane("pages");
begin();
